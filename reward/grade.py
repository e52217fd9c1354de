"""Grade one response: the single call that training and evaluation share."""

import logging
from dataclasses import replace
from typing import Any

from reward.compat import tutorial, verl_compat
from reward.extract import WINDOW
from reward.strict import grade_strict
from reward.symbolic import LIMIT_S, Mathematics
from reward.verdict import ANSWER_FORMATS, MODES, TRUNCATED_REWARDS, Verdict, check_choice

logger = logging.getLogger(__name__)


def grade(
    response: str,
    gold: Any,
    *,
    mode: str = "strict",
    finish_reason: str | None = None,
    answer_format: str = "answer",
    truncated_reward: str = "score",
    thought_open: bool = False,
    limit_s: float = LIMIT_S,
) -> Verdict:
    """Decide whether ``response`` gives the answer ``gold``.

    Works from any thread and in any process, without signal handlers. Never raises on the text of a response or on a
    gold: what goes wrong inside is returned as ``error=True`` and logged.

    Args:
        response: text of the response, special tokens allowed.
        gold: ground truth; anything but a usable string gives ``parse_status="bad_gold"``.
        mode: ``strict`` (ours), ``verl_compat`` (verl 0.9.1's math_dapo) or ``tutorial`` (the slime tutorial's scorer).
        finish_reason: ``length`` for a truncated response, ``stop`` or None otherwise.
        answer_format: what ``strict`` reads first, an ``answer`` line or the last ``boxed``.
        truncated_reward: ``score`` grades truncated responses by what they say, ``wrong`` rejects them all.
        thought_open: the prompt opened ``<think>``, so text without ``</think>`` is an unfinished thought.
        limit_s: wall-clock seconds for symbolic comparison (workers' first start excluded).

    Raises:
        ValueError: an option has an unknown value.
    """
    check_choice("mode", mode, MODES)
    check_choice("answer_format", answer_format, ANSWER_FORMATS)
    check_choice("truncated_reward", truncated_reward, TRUNCATED_REWARDS)
    truncated = finish_reason == "length"
    try:
        verdict = _grade(response, gold, mode, answer_format, thought_open, limit_s)
    except Exception as error:  # the one boundary where model text is graded; the flag is counted by the caller
        logger.warning("grading raised %s: %s", type(error).__name__, str(error)[:200])
        return Verdict(False, None, "none", f"error_{type(error).__name__}", mode, error=True)
    if truncated and (truncated_reward == "wrong" or verdict.parse_status == "none"):
        return replace(verdict, correct=False, reason="truncated")
    return verdict


def _grade(response: str, gold: Any, mode: str, answer_format: str, thought_open: bool, limit_s: float) -> Verdict:
    """Grade by mode."""
    if mode == "strict":
        mathematics = Mathematics(limit_s)
        verdict = grade_strict(response, gold, mathematics, answer_format, thought_open)
        return _with_notes(verdict, mathematics.notes)
    if not isinstance(gold, str):
        return Verdict(False, None, "bad_gold", "bad_gold", mode)
    return _verl(response, gold) if mode == "verl_compat" else _tutorial(response, gold)


def _with_notes(verdict: Verdict, notes: list[str]) -> Verdict:
    """A rejection that the mathematics could not decide says so; a timeout or a dead worker is no plain "differs"."""
    if verdict.correct or not notes:
        return verdict
    return replace(verdict, reason=f"symbolic_{notes[-1]}")


def _verl(response: str, gold: str) -> Verdict:
    """Verdict of verl's own function."""
    result = verl_compat(response, gold)
    pred = None if result["pred"] == "[INVALID]" else result["pred"]
    tail = response[-WINDOW:]
    status = "none" if pred is None else "answer_line" if "nswer" in tail.lower() else "boxed"
    return Verdict(bool(result["acc"]), pred, status, "equal" if result["acc"] else "differs", "verl_compat")


def _tutorial(response: str, gold: str) -> Verdict:
    """Verdict of the tutorial's scorer."""
    correct, pred = tutorial(response, gold)
    status = "none" if pred is None else "answer_line"
    return Verdict(correct, pred, status, "equal" if correct else "differs", "tutorial")
