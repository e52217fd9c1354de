"""How many prompts to send now: an acceptance rate learned over the run, and the shortfall it predicts.

The rate is a Beta posterior with forgetting. Within a step it looks only at the oldest groups sent (see
``step_ledger.Progress``): the first to finish have short answers, and short answers are kept more or less often than
others, so counting them at once would bias the rate, and what is sent too much cannot be unsent.

A group in flight of which k equal samples have arrived is kept less often than a fresh one. How often is learned as
well, by k, from groups of earlier steps in the order in which their samples arrived.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from recipe.step_ledger import Progress

DECLINE = 0.8
"""Prior belief: each further equal sample makes a group this much less likely to be kept."""


@dataclass
class AcceptanceEstimate:
    """Beta posterior over the share of sent groups that is kept, and the same by equal samples arrived.

    ``seen[k]``, ``kept[k]``: discounted numbers of past groups that were still open when k samples had arrived, and of
    those kept in the end; k = 0 is every group. ``memory`` bounds ``seen[0]``, so that what was seen long ago fades.
    It starts optimistic (``prior_weight`` kept groups): the first wave is then about what a batch needs if every group
    is kept, which is never too many.
    """

    memory: float = 2048.0
    prior_weight: float = 2.0
    seen: list[float] = field(default_factory=lambda: [0.0])
    kept: list[float] = field(default_factory=lambda: [0.0])

    def __post_init__(self) -> None:
        """Refuse a memory that forgets everything."""
        if self.memory <= 0 or self.prior_weight <= 0:
            raise ValueError(f"memory={self.memory} and prior_weight={self.prior_weight} groups must be positive")

    def observe(self, groups: Iterable[tuple[bool, int]]) -> None:
        """Add the groups of a finished step, all decided: (kept, samples arrived while open); then forget."""
        for was_kept, arrived in groups:
            missing = arrived + 1 - len(self.seen)
            self.seen += [0.0] * missing
            self.kept += [0.0] * missing
            for k in range(arrived + 1):
                self.seen[k] += 1.0
                self.kept[k] += was_kept
        shrink = min(1.0, self.memory / max(self.seen[0], 1.0))
        self.seen = [x * shrink for x in self.seen]
        self.kept = [x * shrink for x in self.kept]

    def rate(self, kept: int = 0, decided: int = 0) -> float:
        """Posterior mean in (0, 1], given also ``decided`` groups of the running step, ``kept`` of them kept."""
        return (self.prior_weight + self.kept[0] + kept) / (self.prior_weight + self.seen[0] + decided)

    def chances(self, rate: float, arrived: int) -> list[float]:
        """Probability to be kept of a group with 0, 1, ..., ``arrived`` equal samples, given the rate of fresh ones."""
        chances = [rate]
        for k in range(1, arrived + 1):
            seen, kept = (self.seen[k], self.kept[k]) if k < len(self.seen) else (0.0, 0.0)
            prior = chances[-1] * DECLINE
            chances.append((kept + self.prior_weight * prior) / (seen + self.prior_weight))
        return chances

    def uncertainty(self) -> float:
        """Posterior standard deviation of the rate."""
        a, total = self.prior_weight + self.kept[0], self.prior_weight + self.seen[0]
        return math.sqrt(a * max(total - a, 0.0) / (total**2 * (total + 1)))

    def state_dict(self) -> dict[str, list[float]]:
        """What a checkpoint must hold; JSON-ready."""
        return {"seen": list(self.seen), "kept": list(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` gave."""
        self.seen, self.kept = [float(x) for x in state["seen"]], [float(x) for x in state["kept"]]


@dataclass(frozen=True)
class DispatchPlanner:
    """Sends what fills the batch with probability ``Phi(hedge)``, never more than ``max_in_flight`` at a time.

    ``max_in_flight``: prompts; a group counts for the share of its samples still to come. Best set a little above
    what the engines decode at a time (decode slots / samples a prompt): what is sent later is sent knowing more.
    ``hedge``: standard deviations of luck to insure against (0: fill on average; more sends more prompts and waits
    less often for a last round). ``open_share``: a cohort is judged once at most this share of it is still open.
    ``chunk``: prompts worth a dispatch of their own; fewer are sent only when no more are wanted or nothing runs.
    """

    max_in_flight: int
    hedge: float = 2.0
    open_share: float = 0.1
    chunk: int = 1

    def __post_init__(self) -> None:
        """Refuse limits under which nothing would ever be sent."""
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight={self.max_in_flight} prompts: must be at least 1")
        if self.hedge < 0:
            raise ValueError(f"hedge={self.hedge} standard deviations: must be 0 or more")
        if not 0 <= self.open_share < 1:
            raise ValueError(f"open_share={self.open_share} must be at least 0 and below 1")

    def plan(self, progress: Progress, estimate: AcceptanceEstimate) -> int:
        """Prompts to send now, within ``max_in_flight``; at least 1 when short with nothing in flight."""
        if progress.kept >= progress.needed:
            return 0
        rate = estimate.rate(progress.cohort_kept, progress.cohort)
        states = progress.open_by_arrived
        chances = estimate.chances(rate, max(states, default=0))
        expected = progress.kept + progress.settled + sum(n * chances[k] for k, n in states.items())
        variance = sum(n * chances[k] * (1.0 - chances[k]) for k, n in states.items())
        want = self.prompts_for(progress.needed - expected, variance, rate)
        room = math.floor(self.max_in_flight - progress.load)
        if not progress.in_flight:
            return max(1, min(want, room))
        return min(want, room) if room >= min(want, self.chunk) else 0

    def prompts_for(self, missing: float, variance: float, rate: float) -> int:
        """Smallest m with ``m * rate - hedge * sqrt(variance + m * rate * (1 - rate)) >= missing``.

        ``missing`` groups beyond what those in flight are expected to give, with ``variance``; normal approximation.
        """
        if -missing >= self.hedge * math.sqrt(variance):
            return 0
        half = self.hedge * (1.0 - rate) / 2.0
        spread = math.sqrt(max(0.0, variance + missing * (1.0 - rate) + half**2))
        return math.ceil((missing + self.hedge * (half + spread)) / rate - 1e-9)
