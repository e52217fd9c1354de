"""What has been sent in one training step, in which order, and what became of it. Pure bookkeeping.

Which groups train is decided in **dispatch order**: the first ``needed`` kept groups in the order in which they were
sent, whoever finished first. Short answers finish first, so choosing by completion would favour them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from recipe.group_filter import FAILED, KEPT, REASONS, Decision

PENDING = "pending"
GIVEN_UP = "given_up"
ABORTED = "aborted"
STATES = (PENDING, *REASONS, GIVEN_UP, ABORTED)
"""A group is pending until it is kept, rejected for one of ``REASONS``, given up (stuck) or aborted (not needed)."""


@dataclass
class Entry:
    """One dispatched group: times in seconds of the caller's clock, ``tokens`` generated, ``carried`` from before.

    ``arrived``: samples that came while the group was still open to both ends; ``settled``: sure to be kept.
    ``share_left``: share of its samples still to come, 0 to 1.
    """

    uid: str
    order: int
    dispatched_at: float
    state: str = PENDING
    decided_at: float | None = None
    tokens: int = 0
    carried: bool = False
    arrived: int = 0
    settled: bool = False
    share_left: float = 1.0


@dataclass(frozen=True)
class Progress:
    """What a planner may look at. Numbers of groups, if not said otherwise.

    ``kept`` includes carried ones; ``settled`` are in flight but sure to be kept; ``open_by_arrived`` are the others in
    flight, by the number of samples that arrived. ``load``: samples in flight over samples a group.
    ``cohort``, ``cohort_kept``: the oldest groups sent this step, up to where few are still open, and how many of them
    are kept or settled; open ones are in neither. Groups that finished early but were sent later are left out: short
    answers finish first, and say little about the rest.
    """

    needed: int
    kept: int
    settled: int
    open_by_arrived: dict[int, int]
    load: float
    cohort: int
    cohort_kept: int

    @property
    def in_flight(self) -> int:
        """Groups sent and not decided."""
        return self.settled + sum(self.open_by_arrived.values())


class StepLedger:
    """Groups of one step in dispatch order. ``needed``: groups to train on, at least 1."""

    def __init__(self, needed: int, started_at: float = 0.0) -> None:
        if needed < 1:
            raise ValueError(f"needed={needed} groups: a training step needs at least 1, check data.train_batch_size")
        self.needed = needed
        self.started_at = started_at
        self.entries: dict[str, Entry] = {}
        self.dispatch_calls = 0
        self._order: list[Entry] = []
        self._pending: dict[str, Entry] = {}
        self._carried = self._kept_count = self._failed_count = 0
        self._frontier = self._frontier_kept = self._frontier_aborted = 0  # the decided prefix of _order

    def carry_in(self, uids: Iterable[str]) -> None:
        """Groups kept in an earlier step: first in the order, already decided, not counted as generated."""
        if self.generated:
            raise ValueError("carried groups come before any group of this step: call carry_in first")
        for uid in uids:
            self._add(uid, self.started_at).carried = True
            self._carried += 1
            self._decide(uid, KEPT, self.started_at, 0)

    def dispatch(self, uids: Iterable[str], now: float) -> None:
        """Register groups in the order in which they were sent. A uid sent twice is a ValueError."""
        self.dispatch_calls += 1
        for uid in uids:
            self._add(uid, now)

    def resolve(self, uid: str, decision: Decision, now: float, tokens: int = 0) -> bool:
        """Record a filter's decision once; False when ``uid`` is not pending (unknown, or late after give-up)."""
        return self._decide(uid, decision.reason, now, tokens)

    def give_up(self, uid: str, now: float, tokens: int = 0) -> bool:
        """The group is stuck: what it still delivers must never reach a batch."""
        return self._decide(uid, GIVEN_UP, now, tokens)

    def abort(self, uid: str, now: float, tokens: int = 0) -> bool:
        """The batch is full without this group."""
        return self._decide(uid, ABORTED, now, tokens)

    def selected(self) -> list[str]:
        """The first ``needed`` kept groups in dispatch order; fewer when fewer were kept."""
        return self._kept()[: self.needed]

    def surplus(self) -> list[str]:
        """Kept groups that the batch has no room for, in dispatch order."""
        return self._kept()[self.needed :]

    def pending(self) -> list[str]:
        """Groups in flight, oldest first."""
        return list(self._pending)

    def overdue(self, now: float, after_s: float) -> list[str]:
        """Groups in flight for at least ``after_s`` seconds."""
        return [e.uid for e in self._pending.values() if now - e.dispatched_at >= after_s]

    def full(self) -> bool:
        """The batch is decided: no undecided group was sent before the last of the ``needed`` kept ones."""
        entries = self._order
        while self._frontier < len(entries) and self._frontier_kept < self.needed:
            state = entries[self._frontier].state
            if state == PENDING:
                return False
            self._frontier_kept += state == KEPT
            self._frontier_aborted += state == ABORTED
            self._frontier += 1
        return self._frontier_kept >= self.needed

    @property
    def generated(self) -> int:
        """Groups sent this step, carried ones not counted."""
        return len(self._order) - self._carried

    @property
    def kept(self) -> int:
        """Groups kept so far, carried ones and surplus included."""
        return self._kept_count

    @property
    def failed(self) -> int:
        """Groups that failed in the rollout or in grading so far."""
        return self._failed_count

    def counts(self) -> dict[str, int]:
        """Groups by state, every state present, carried ones not counted; sums to ``generated``."""
        found = Counter(e.state for e in self.entries.values() if not e.carried)
        return {state: found[state] for state in STATES}

    def foresee(self, uid: str, arrived: int, expected: int, settled: bool) -> None:
        """Note that ``arrived`` of ``expected`` samples of a pending group came, and whether it is sure to be kept.

        Optional: a sampler that only sees whole groups never calls it.
        """
        entry = self._pending.get(uid)
        if entry is None:
            return
        entry.share_left = max(0.0, 1.0 - arrived / expected)
        entry.settled = entry.settled or settled
        if not entry.settled:
            entry.arrived = arrived

    def progress(self, open_share: float = 0.1) -> Progress:
        """Where the step stands; the cohort is the longest prefix of which at most ``open_share`` is still open."""
        self.full()  # moves the decided prefix on, which need not be walked again
        known, kept = self._frontier - self._carried - self._frontier_aborted, self._frontier_kept - self._carried
        still_open, cohort, cohort_kept = 0, known, kept
        for entry in self._order[self._frontier :]:
            if entry.state == PENDING and not entry.settled:
                still_open += 1
            elif entry.state != ABORTED:
                known += 1
                kept += entry.state in (PENDING, KEPT)
            if still_open <= open_share * (known + still_open):
                cohort, cohort_kept = known, kept
        pending = self._pending.values()
        return Progress(
            needed=self.needed,
            kept=self.kept,
            settled=sum(e.settled for e in pending),
            open_by_arrived=dict(Counter(e.arrived for e in pending if not e.settled)),
            load=sum(e.share_left for e in pending),
            cohort=cohort,
            cohort_kept=cohort_kept,
        )

    def _add(self, uid: str, now: float) -> Entry:
        if uid in self.entries:
            raise ValueError(f"group {uid} was sent twice in one step: every dispatch needs a fresh uid")
        entry = Entry(uid, len(self.entries), now)
        self.entries[uid] = self._pending[uid] = entry
        self._order.append(entry)
        return entry

    def _decide(self, uid: str, state: str, now: float, tokens: int) -> bool:
        entry = self._pending.pop(uid, None)
        if entry is None:
            return False
        entry.state, entry.decided_at, entry.tokens = state, now, tokens
        self._kept_count += state == KEPT
        self._failed_count += state == FAILED
        return True

    def _kept(self) -> list[str]:
        return [e.uid for e in self.entries.values() if e.state == KEPT]
