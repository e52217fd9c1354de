"""What grading one response returns, and the names that modes and formats go by."""

from dataclasses import dataclass

MODES = ("strict", "verl_compat", "tutorial")
ANSWER_FORMATS = ("answer", "boxed")
# Where the answer was found: on an `Answer:` line, in `\boxed{}`, nowhere, or never looked for (unusable gold).
PARSE_STATUSES = ("answer_line", "boxed", "none", "bad_gold")
TRUNCATED_REWARDS = ("score", "wrong")


@dataclass(frozen=True)
class Verdict:
    """Outcome of grading one response.

    Attributes:
        correct: whether the response is accepted.
        pred: the answer that was read, as text; None when there is none (never a sentinel).
        parse_status: one of ``PARSE_STATUSES``.
        reason: one word or two for the decision, e.g. ``equal``, ``differs``, ``several_candidates``; a metric label.
        mode: the rules that were applied, one of ``MODES``.
        outside_window: the answer stands where verl's 300-character window does not reach.
        error: grading raised; the response counts as wrong and the caller counts the error.
    """

    correct: bool
    pred: str | None
    parse_status: str
    reason: str
    mode: str = "strict"
    outside_window: bool = False
    error: bool = False


def check_choice(key: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ``ValueError`` naming key, value and the values that exist, unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        raise ValueError(f"{key}={value!r} is unknown; use one of {', '.join(allowed)}")
