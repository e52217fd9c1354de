"""Keep a group of answers, or say why not: the one decision behind dynamic sampling.

DAPO (arXiv 2503.14476, section 3.2 and algorithm 1) trains on a prompt only if 0 < number of correct answers < G:
otherwise the group-normalised advantage of every sample is zero. The criterion is accuracy, never the shaped reward:
with a length penalty inside the value, an all-wrong group has spread and its shortest wrong answer is rewarded.

Departure from verl 0.9.1, on purpose: equality is ``max - min <= tol``, not ``std == 0``, because the standard
deviation of equal floats can be a hair above zero (``numpy.std([0.1] * 3)`` is 1.4e-17).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

KEPT = "kept"
ALL_CORRECT = "all_correct"
ALL_WRONG = "all_wrong"
TOO_EASY = "too_easy"
TOO_HARD = "too_hard"
NO_SPREAD = "no_spread"
INCOMPLETE = "incomplete"
FAILED = "failed"
REASONS = (KEPT, ALL_CORRECT, ALL_WRONG, TOO_EASY, TOO_HARD, NO_SPREAD, INCOMPLETE, FAILED)
"""Every reason a filter may return; ``kept`` is the only one that goes with ``keep=True``."""

REWARD_METRICS = ("reward", "score", "seq_reward", "seq_final_reward")
"""Names under which recipes filter on the reward; all of them mean ``Group.rewards`` here."""


@dataclass(frozen=True)
class Group:
    """The n samples of one prompt, index i of every sequence being sample i.

    ``accuracies``: 0.0 wrong to 1.0 right. ``rewards``: what the advantage is computed from, shaping included.
    ``lengths``: response tokens. ``truncated``: true where the answer hit the length limit without eos. The last three
    may be empty when the filter does not need them. ``expected_samples``: n as configured (None: not checked).
    ``failed``: the engine or the grader reported that the group broke.
    """

    accuracies: Sequence[float]
    rewards: Sequence[float] = ()
    lengths: Sequence[int] = ()
    truncated: Sequence[bool] = ()
    expected_samples: int | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        """Refuse sequences of unequal length."""
        n = len(self.accuracies)
        for name in ("rewards", "lengths", "truncated"):
            if len(getattr(self, name)) not in (0, n):
                raise ValueError(
                    f"Group.{name} has {len(getattr(self, name))} entries, accuracies has {n}: give one each"
                )

    @property
    def mean_accuracy(self) -> float:
        """Share of right answers, 0 to 1; nan when there is no sample."""
        return sum(self.accuracies) / len(self.accuracies) if self.accuracies else math.nan


@dataclass(frozen=True)
class Decision:
    """``keep`` and one of ``REASONS``; ``reason == "kept"`` exactly when ``keep``."""

    keep: bool
    reason: str

    def __post_init__(self) -> None:
        """Refuse an unknown or contradictory reason."""
        if self.reason not in REASONS:
            raise ValueError(f"reason={self.reason!r} is unknown: use one of {', '.join(REASONS)}")
        if self.keep != (self.reason == KEPT):
            raise ValueError(f"keep={self.keep} contradicts reason={self.reason!r}: 'kept' goes with keep=True alone")


class Filter(Protocol):
    """What a filter of your own must offer: pure, the same answer for the same group."""

    def decide(self, group: Group) -> Decision:
        """Keep the group, or drop it with one of ``REASONS``."""
        ...


def is_settled(group_filter: Filter, group: Group, expected_samples: int) -> bool:
    """Ask a filter that can foresee (an optional method ``settled``) whether a part of a group already decides it."""
    settled = getattr(group_filter, "settled", None)
    return bool(settled and settled(group, expected_samples))


@dataclass(frozen=True)
class GroupFilter:
    """DAPO's rule by default; a band on the group mean and a minimum spread as options.

    ``low``, ``high``: a group is kept when its mean value lies between them, ends out unless ``inclusive``; None is no
    bound; in units of the metric. ``min_spread``: a kept group has max - min of at least this (0: off).
    ``tol``: values closer than this are equal, and a mean this close to a bound is on it.
    ``metric``: ``acc``, or ``reward`` (and its synonyms ``REWARD_METRICS``).
    ``reward_is_shaped``: the reward contains a length penalty; filtering on it is then refused unless ``force``.
    ``mask_truncated``: overlong filtering is on, so truncated samples leave the loss (not the group's mean and std): a
    group is kept only if a sample that stays in the loss has a non-zero advantage.

    Whatever the bounds, a group without spread is never kept: its advantages are zero.
    """

    low: float | None = 0.0
    high: float | None = 1.0
    inclusive: bool = False
    min_spread: float = 0.0
    tol: float = 1e-6
    metric: str = "acc"
    reward_is_shaped: bool = False
    force: bool = False
    mask_truncated: bool = False

    def __post_init__(self) -> None:
        """Refuse settings that keep nothing, or keep the wrong groups."""
        self._check_metric()
        if not 0 <= self.tol < math.inf:
            raise ValueError(f"filter.tol={self.tol} must be 0 or a small positive number such as 1e-6")
        if not 0 <= self.min_spread < math.inf:
            raise ValueError(f"filter.min_spread={self.min_spread} must be 0 (off) or positive")
        bounds = [b for b in (self.low, self.high) if b is not None]
        if any(math.isnan(b) for b in bounds) or (len(bounds) == 2 and bounds[0] >= bounds[1]):
            raise ValueError(f"filter.low={self.low} must be below filter.high={self.high}; null is no bound")

    def _check_metric(self) -> None:
        if self.metric != "acc" and self.metric not in REWARD_METRICS:
            raise ValueError(
                f"filter.metric={self.metric!r} is unknown: use acc, or one of {', '.join(REWARD_METRICS)}"
            )
        if self.metric != "acc" and self.reward_is_shaped and not self.force:
            raise ValueError(
                f"filter.metric={self.metric!r} contains the overlong penalty: all-wrong groups of different lengths "
                "would be kept and the shortest wrong answer rewarded; set filter.metric=acc, or filter.force=true"
            )
        if self.metric != "acc" and (self.low, self.high) == (0.0, 1.0):
            raise ValueError(
                f"filter.low=0.0 and filter.high=1.0 are accuracies, but filter.metric={self.metric!r}: give the "
                "bounds in units of the reward, or null for no bound (groups without spread are dropped all the same)"
            )

    def decide(self, group: Group) -> Decision:
        """Keep the group or name the first reason why not; a pure function of ``group``."""
        reason = self._broken(group) or self._flat(group) or self._out_of_band(group) or KEPT
        return Decision(reason == KEPT, reason)

    def settled(self, group: Group, expected_samples: int) -> bool:
        """Whether the samples that arrived so far already guarantee that the whole group will be kept.

        Spread only grows, and the final mean accuracy lies between all and none of the missing samples being right.
        Never true for a reward metric, whose values have no bounds. Under ``mask_truncated`` two samples that stay in
        the loss must differ already: whatever the mean becomes, one of them is off it.
        """
        so_far = Group(group.accuracies)
        missing = expected_samples - len(so_far.accuracies)
        if self.metric != "acc" or missing < 0 or self._broken(so_far) or self._flat(so_far):
            return False
        if self.mask_truncated and not self._stays_live(group):
            return False
        futures = [Group([*so_far.accuracies, *[value] * missing]) for value in (0.0, 1.0)]
        return not any(self._out_of_band(future) for future in futures)

    def values(self, group: Group) -> list[float]:
        """The metric of each sample, as floats."""
        return [float(v) for v in (group.accuracies if self.metric == "acc" else group.rewards)]

    def _broken(self, group: Group) -> str | None:
        values = self.values(group)
        if group.failed or any(not math.isfinite(v) for v in (*values, *group.accuracies)):
            return FAILED
        expected = max(1, group.expected_samples or 1)
        return INCOMPLETE if len(values) < expected else None

    def _flat(self, group: Group) -> str | None:
        values = self.values(group)
        spread = max(values) - min(values)
        if spread > self.tol and spread >= self.min_spread - self.tol and self._has_live_signal(group, values):
            return None
        if min(group.accuracies) >= 1.0 - self.tol:
            return ALL_CORRECT
        return ALL_WRONG if max(group.accuracies) <= self.tol else NO_SPREAD

    def _has_live_signal(self, group: Group, values: list[float]) -> bool:
        if not (self.mask_truncated and group.truncated):
            return True
        mean = sum(values) / len(values)
        return any(abs(v - mean) > self.tol for v, cut in zip(values, group.truncated, strict=True) if not cut)

    def _stays_live(self, group: Group) -> bool:
        cuts = group.truncated or [False] * len(group.accuracies)
        live = [a for a, cut in zip(group.accuracies, cuts, strict=True) if not cut]
        return bool(live) and max(live) - min(live) > 2 * self.tol

    def _out_of_band(self, group: Group) -> str | None:
        values = self.values(group)
        mean = sum(values) / len(values)
        margin = self.tol if self.inclusive else -self.tol
        if self.low is not None and not mean > self.low - margin:
            return TOO_HARD
        return TOO_EASY if self.high is not None and not mean < self.high + margin else None
