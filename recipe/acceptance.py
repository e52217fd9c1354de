"""How many prompts to send now: an acceptance rate learned over the run, and the shortfall it predicts.

The rate is a Beta posterior with forgetting. Within a step it looks only at the oldest groups sent (see
``step_ledger.Progress``): the first to finish have short answers, and short answers are kept more or less often than
others, so counting them at once would bias the rate and the number sent. Groups of the cohort that still run count as
kept: sending too few costs a little time, sending too many cannot be undone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from recipe.step_ledger import Progress


@dataclass
class AcceptanceEstimate:
    """Beta posterior over the share of sent groups that is kept.

    ``kept`` and ``dropped`` are (discounted) counts of past groups; ``memory`` bounds their sum, so that the rate of
    some steps ago fades. It starts optimistic (``prior_weight`` kept groups): the first wave is then about what a
    batch needs if every group is kept, which is never too many.
    """

    memory: float = 2048.0
    prior_weight: float = 2.0
    kept: float = 0.0
    dropped: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a memory that forgets everything."""
        if self.memory <= 0 or self.prior_weight <= 0:
            raise ValueError(f"memory={self.memory} and prior_weight={self.prior_weight} groups must be positive")

    def observe(self, kept: int, dropped: int) -> None:
        """Add the groups of a finished step, all of them decided, then forget down to ``memory`` groups."""
        self.kept, self.dropped = self.kept + kept, self.dropped + dropped
        shrink = min(1.0, self.memory / max(self.kept + self.dropped, 1.0))
        self.kept, self.dropped = self.kept * shrink, self.dropped * shrink

    def rate(self, kept: int = 0, decided: int = 0) -> float:
        """Posterior mean in (0, 1], given also ``decided`` groups of the running step, ``kept`` of them kept."""
        return (self.prior_weight + self.kept + kept) / (self.prior_weight + self.kept + self.dropped + decided)

    def uncertainty(self) -> float:
        """Posterior standard deviation of the rate."""
        a, total = self.prior_weight + self.kept, self.prior_weight + self.kept + self.dropped
        return math.sqrt(a * max(total - a, 0.0) / (total**2 * (total + 1)))

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint must hold."""
        return {"kept": self.kept, "dropped": self.dropped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        self.kept, self.dropped = float(state["kept"]), float(state["dropped"])


@dataclass(frozen=True)
class DispatchPlanner:
    """Sends what fills the batch with probability ``Phi(hedge)``, never more than ``max_in_flight`` at a time.

    ``hedge``: standard deviations of luck to insure against (0: fill on average; more sends more prompts and waits
    less often for a last round). ``running_share``: a cohort of groups is judged once at most this share still runs.
    """

    max_in_flight: int
    hedge: float = 1.0
    running_share: float = 0.1

    def __post_init__(self) -> None:
        """Refuse limits under which nothing would ever be sent."""
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight={self.max_in_flight} prompts: must be at least 1")
        if not 0 <= self.running_share < 1:
            raise ValueError(f"running_share={self.running_share} must be at least 0 and below 1")

    def plan(self, progress: Progress, estimate: AcceptanceEstimate) -> int:
        """Prompts to send now, 0 to ``max_in_flight - in_flight``; at least 1 when short with nothing in flight."""
        if progress.kept >= progress.needed:
            return 0
        judged = progress.cohort_decided + progress.cohort_pending
        rate = estimate.rate(progress.cohort_kept + progress.cohort_pending, judged)
        open_groups = progress.cohort_pending + progress.beyond_cohort
        missing = progress.needed - progress.carried - progress.cohort_kept
        want = self.groups_for(missing, rate) - open_groups
        least = 1 if progress.in_flight == 0 else 0
        return max(least, min(want, self.max_in_flight - progress.in_flight))

    def groups_for(self, missing: int, rate: float) -> int:
        """Smallest m with ``m * rate - hedge * sqrt(m * rate * (1 - rate)) >= missing`` (normal approximation)."""
        spread = self.hedge * math.sqrt(rate * (1.0 - rate))
        root = (spread + math.sqrt(spread**2 + 4.0 * rate * missing)) / (2.0 * rate)
        return math.ceil(root**2 - 1e-9)
