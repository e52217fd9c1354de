"""From a response and its token count to the numbers that verl's trainer receives. Pure: no verl, torch or Ray."""

from typing import Any

from reward.compat import verl_compat
from reward.grade import grade
from reward.settings import RewardSettings
from reward.verdict import Verdict


def verdict_of(response: str, gold: Any, settings: RewardSettings, truncated: bool) -> Verdict:
    """Grade with the configured mode, format and treatment of truncation."""
    return grade(
        response,
        gold,
        mode=settings.mode,
        finish_reason="length" if truncated else "stop",
        answer_format=settings.answer_format,
        truncated_reward=settings.truncated_reward,
        thought_open=settings.thought_open,
    )


def disagrees(verdict: Verdict, plain: str, gold: Any, settings: RewardSettings, truncated: bool) -> bool:
    """Whether ``strict`` and verl's ``math_dapo`` decide differently on this response.

    ``plain`` is the response as verl decodes it, without special tokens.
    """
    if not isinstance(gold, str):
        return False
    other = verdict if settings.mode == "strict" else grade(plain, gold, answer_format=settings.answer_format)
    return other.correct != bool(verl_compat(plain, gold)["acc"])


def score_sample(
    response: str, plain: str, gold: Any, length: int, truncated: bool, settings: RewardSettings
) -> tuple[float, dict[str, Any]]:
    """Score one sample.

    Args:
        response: decoded text, special tokens included when the model wrote any before its end.
        plain: the same text without special tokens (what verl's own managers read).
        gold: ground truth as it stands in the data; anything but a usable string is counted, never raised on.
        length: tokens of the response.
        truncated: generation ended at the length limit.
        settings: checked configuration.

    Returns:
        The reward (correctness plus overlong penalty) and the extra information: the same keys for every sample,
        plain ``float`` and ``str`` values, ``pred`` an empty string when nothing was read.
    """
    verdict = verdict_of(plain if settings.mode != "strict" else response, gold, settings, truncated)
    score = settings.correctness_reward(verdict.correct)
    penalty = settings.overlong_reward(length)
    info: dict[str, Any] = {
        "score": score,
        "acc": float(verdict.correct),
        "pred": verdict.pred or "",
        "parse_status": verdict.parse_status,
        "reason": verdict.reason,
        "reward_mode": settings.mode,
        "overlong_reward": penalty,
        "overlong": float(penalty < 0),
        "truncated": float(truncated),
        "parse_fail": float(verdict.parse_status == "none"),
        "bad_gold": float(verdict.parse_status == "bad_gold"),
        "reward_error": float(verdict.error),
        "verl_disagrees": float(disagrees(verdict, plain, gold, settings, truncated)),
        "several_candidates": float(verdict.reason == "several_candidates"),
        "answer_outside_window": float(verdict.outside_window),
        "response_tokens": float(length),
    }
    return score + penalty, info
