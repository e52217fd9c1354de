"""Grade one response: the single call that training and evaluation share."""

from reward.compat import tutorial, verl_compat
from reward.verdict import ANSWER_FORMATS, MODES, Verdict, check_choice


def grade(
    response: str,
    gold: str,
    *,
    mode: str = "strict",
    finish_reason: str | None = None,
    answer_format: str = "answer",
    truncated_reward: str = "score",
    thought_open: bool = False,
) -> Verdict:
    """Placeholder while strict is built."""
    check_choice("mode", mode, MODES)
    check_choice("answer_format", answer_format, ANSWER_FORMATS)
    if mode == "tutorial":
        correct, pred = tutorial(response, gold)
        return Verdict(
            correct, pred, "none" if pred is None else "answer_line", "equal" if correct else "differs", mode
        )
    result = verl_compat(response, gold)
    pred = None if result["pred"] == "[INVALID]" else result["pred"]
    status = "none" if pred is None else "answer_line"
    return Verdict(bool(result["acc"]), pred, status, "equal" if result["acc"] else "differs", mode)
