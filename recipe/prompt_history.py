"""What each prompt scored over the run, and which prompts not to send again just yet. Off by default. Pure.

A prompt that was all-correct or all-wrong the last ``streak`` times is skipped before dispatch with a probability that
grows with its streak and never reaches ``max_skip`` < 1: a model that has learned meets its old failures again.
Departure from DAPO, which draws prompts uniformly: with it on, the training distribution is reweighted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SOLVED, HOPELESS, MIXED = "solved", "hopeless", "mixed"


@dataclass(frozen=True)
class SkipRule:
    """When and how often a prompt is skipped.

    ``streak``: equal outcomes in a row before any skip, at least 1. ``skip``: probability to skip at that streak, and
    again for each further one: the probability is ``min(max_skip, 1 - (1 - skip) ** (length - streak + 1))``.
    ``max_skip``: ceiling, below 1. ``solved`` / ``hopeless``: which outcomes count. ``tol``: an accuracy this close to
    1 or 0 is all-correct or all-wrong. ``seed`` makes the draw a function of prompt and attempt, not of the process.
    """

    streak: int = 2
    skip: float = 0.5
    max_skip: float = 0.9
    solved: bool = True
    hopeless: bool = True
    tol: float = 1e-6
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse rules that would retire a prompt for good."""
        if self.streak < 1:
            raise ValueError(f"history.streak={self.streak} must be at least 1 group")
        for name in ("skip", "max_skip"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(
                    f"history.{name}={getattr(self, name)} must be at least 0 and below 1, or prompts die out"
                )

    def probability(self, streak: int, outcome: str) -> float:
        """Probability to skip a prompt whose last ``streak`` groups all had this outcome; below 1."""
        counts = (outcome == SOLVED and self.solved) or (outcome == HOPELESS and self.hopeless)
        if not counts or streak < self.streak:
            return 0.0
        return min(self.max_skip, 1.0 - (1.0 - self.skip) ** (streak - self.streak + 1))


@dataclass
class PromptHistory:
    """Group accuracies by prompt key, newest last, at most ``keep`` each.

    ``key`` must name the prompt across epochs and resumes (a hash of its text or its dataset index, never the uid of
    a dispatch).
    """

    rule: SkipRule = field(default_factory=SkipRule)
    keep: int = 16
    accuracies: dict[str, list[float]] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a memory shorter than the streak it must recognise."""
        if self.keep < self.rule.streak:
            raise ValueError(f"history.keep={self.keep} groups cannot hold history.streak={self.rule.streak}")

    def record(self, key: str, accuracy: float) -> None:
        """Remember the mean accuracy (0 to 1) of a complete group; record no failed or partial group."""
        if not 0.0 <= accuracy <= 1.0:
            raise ValueError(f"accuracy={accuracy} of prompt {key} is outside 0..1: record the share of right answers")
        self.accuracies[key] = [*self.accuracies.get(key, []), accuracy][-self.keep :]

    def outcome(self, accuracy: float) -> str:
        """``solved``, ``hopeless`` or ``mixed``."""
        if accuracy >= 1.0 - self.rule.tol:
            return SOLVED
        return HOPELESS if accuracy <= self.rule.tol else MIXED

    def streak(self, key: str) -> tuple[int, str]:
        """Length and outcome of the run of equal outcomes that ends with the newest group; (0, mixed) if unknown."""
        outcomes = [self.outcome(a) for a in self.accuracies.get(key, [])]
        length = 0
        while length < len(outcomes) and outcomes[-1 - length] == outcomes[-1]:
            length += 1
        return length, outcomes[-1] if outcomes else MIXED

    def skip_probability(self, key: str) -> float:
        """Probability that the prompt is not sent when its turn comes; 0 for an unknown prompt, always below 1."""
        return self.rule.probability(*self.streak(key))

    def should_skip(self, key: str) -> bool:
        """Draw once for this turn of the prompt; the same history and seed give the same answer in any process."""
        turn = self.attempts[key] = self.attempts.get(key, 0) + 1
        digest = hashlib.sha256(f"{self.rule.seed}/{turn}/{key}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < self.skip_probability(key)

    def counts(self) -> dict[str, int]:
        """Prompts by outcome of their newest group, for metrics."""
        newest = [self.outcome(groups[-1]) for groups in self.accuracies.values()]
        return {name: newest.count(name) for name in (SOLVED, HOPELESS, MIXED)}

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold; JSON-ready. The rule is configuration and not part of it."""
        return {"accuracies": {k: list(v) for k, v in self.accuracies.items()}, "attempts": dict(self.attempts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the memory with what ``state_dict`` gave."""
        self.accuracies = {str(k): [float(a) for a in v][-self.keep :] for k, v in state["accuracies"].items()}
        self.attempts = {str(k): int(n) for k, n in state["attempts"].items()}
