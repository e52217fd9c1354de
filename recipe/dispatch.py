"""The next move of a sampling step: send, wait, abandon or end. Shared by the real sampler and the simulator.

A step ends full, or exhausted when a bound is reached: generated prompts, passes over the data, wall-clock. It never
ends while a group is in flight: requests would run on into the weight update (verl 0.9.1, ``trainer_sync.py:40``), so
groups that are no longer wanted are drained, or abandoned (the caller aborts them and clears what they deliver late).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recipe.acceptance import AcceptanceEstimate, DispatchPlanner
from recipe.group_filter import ALL_CORRECT, ALL_WRONG, FAILED, INCOMPLETE, KEPT, NO_SPREAD, TOO_EASY, TOO_HARD
from recipe.step_ledger import ABORTED, GIVEN_UP, PENDING, StepLedger

DISPATCH, WAIT, ABANDON, END = "dispatch", "wait", "abandon", "end"
FULL, TRAIN_PARTIAL, SKIP_STEP = "full", "train_partial", "skip_step"
ON_EXHAUSTED = ("error", TRAIN_PARTIAL, SKIP_STEP)

ADVICE = {
    ALL_WRONG: "the data is too hard for this model: use easier prompts, a warm start, or more samples a prompt",
    ALL_CORRECT: "the data is too easy for this model: use harder prompts, or more samples a prompt",
    TOO_EASY: "the band is narrow: raise filter.high, or use harder prompts",
    TOO_HARD: "the band is narrow: lower filter.low, or use easier prompts",
    NO_SPREAD: "the metric hardly varies within a group: lower filter.min_spread, or check the metric",
    FAILED: "rollouts or grading failed: read the agent-loop and engine logs",
    INCOMPLETE: "groups miss samples: read the agent-loop and engine logs",
    GIVEN_UP: "prompts got stuck: raise the give-up time, or look at the engine",
}


class RolloutsFail(RuntimeError):
    """So many groups failed that more of them will not help."""


class SamplingExhausted(RuntimeError):
    """A bound was reached before the batch was full; the message has the counts and what to change."""


@dataclass(frozen=True)
class Bounds:
    """Limits of one step; None is no limit. At least one of the first two must be set, or a step might never end.

    ``max_generated``: prompts sent. ``max_passes``: passes over the ``rows`` prompts of the data (a fraction is fine).
    ``max_seconds``: wall-clock, after which groups in flight are abandoned. ``give_up_after_s``: a group in flight for
    this long is abandoned and refilled. ``on_exhausted``: one of ``ON_EXHAUSTED``. ``abort_surplus``: once the batch is
    decided, abandon what still runs instead of draining it.
    """

    max_generated: int | None = None
    max_passes: float | None = None
    rows: int | None = None
    max_seconds: float | None = None
    give_up_after_s: float | None = None
    on_exhausted: str = "error"
    abort_surplus: bool = False

    def __post_init__(self) -> None:
        """Refuse bounds that do not bound."""
        for name in ("max_generated", "max_passes", "rows", "max_seconds", "give_up_after_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be positive, or null for no limit")
        if self.max_generated is None and self.max_passes is None:
            raise ValueError("max_generated and max_passes are both null: set one, or a step may never end")
        if self.max_passes is not None and self.rows is None:
            raise ValueError(f"max_passes={self.max_passes} needs rows, the number of prompts in the data")
        if self.on_exhausted not in ON_EXHAUSTED:
            raise ValueError(f"on_exhausted={self.on_exhausted!r} is unknown: use one of {', '.join(ON_EXHAUSTED)}")

    def generated_limit(self) -> int:
        """Prompts that one step may send."""
        limits = [self.max_generated] if self.max_generated is not None else []
        if self.max_passes is not None and self.rows is not None:
            limits.append(int(self.max_passes * self.rows))
        return min(limits)


@dataclass(frozen=True)
class Action:
    """``kind``: ``dispatch`` (``count`` prompts), ``wait``, ``abandon`` (``uids``) or ``end`` (``outcome``)."""

    kind: str
    count: int = 0
    uids: tuple[str, ...] = ()
    outcome: str = ""


@dataclass
class StepController:
    """Joins ledger, planner and bounds. Call ``next_action`` after every change until it says ``end``.

    The caller carries an action out and records it: ``ledger.dispatch`` after sending, nothing after ``abandon`` (the
    controller has already marked those groups; the caller aborts them and keeps clearing what they deliver late).
    """

    ledger: StepLedger
    planner: DispatchPlanner
    estimate: AcceptanceEstimate
    bounds: Bounds
    exhausted_by: str = field(default="", init=False)

    def next_action(self, now: float) -> Action:
        """Decide the next move at ``now`` (seconds, same clock as the ledger). Never loops by itself.

        Raises ``SamplingExhausted`` at a bound under ``on_exhausted=error``, with nothing in flight any more except
        what was abandoned; ``RolloutsFail`` once twice as many groups have failed as the batch needs, whatever
        ``on_exhausted`` says: each would be replaced by the next to fail, up to the bound.
        """
        if self.ledger.failed >= 2 * self.ledger.needed:
            raise RolloutsFail(
                f"{self.ledger.failed} groups failed in one step, {self.ledger.kept} of {self.ledger.needed} "
                "are kept: an engine or a reward worker has died, or raises on every prompt; the errors are in the "
                "output of the agent-loop workers above"
            )
        stuck = self._abandon_stuck(now)
        if stuck:
            return stuck
        if self.ledger.full():
            return self._finish(now)
        if self._out_of_time(now) and self.ledger.pending():
            return self._abandon(self.ledger.pending(), now, aborted=False)
        count = self._sendable(now)
        if count > 0:
            return Action(DISPATCH, count=count)
        return Action(WAIT) if self.ledger.pending() else self._exhausted()

    def close(self) -> None:
        """Teach the estimate what became of the groups of this step. Call once, after ``end``."""
        fresh = [e for e in self.ledger.entries.values() if not e.carried and e.state not in (PENDING, ABORTED)]
        self.estimate.observe((e.state == KEPT, e.arrived) for e in fresh)

    def explain(self) -> str:
        """One sentence with the counts, one with what to change."""
        counts = self.ledger.counts()
        shown = ", ".join(f"{state} {n}" for state, n in counts.items() if n or state in (KEPT, ALL_CORRECT, ALL_WRONG))
        dropped = {state: n for state, n in counts.items() if state in ADVICE and n}
        advice = ADVICE[max(dropped, key=lambda s: dropped[s])] if dropped else "raise the bound"
        return (
            f"dynamic sampling stopped at {self.exhausted_by or 'a bound'} with {self.ledger.kept} of "
            f"{self.ledger.needed} groups, {self.ledger.generated} prompts sent ({shown}). Mostly, {advice}. Or raise "
            f"the bound, lower data.train_batch_size, or set on_exhausted to {TRAIN_PARTIAL} or {SKIP_STEP}."
        )

    def _abandon_stuck(self, now: float) -> Action | None:
        after = self.bounds.give_up_after_s
        overdue = self.ledger.overdue(now, after) if after is not None else []
        return self._abandon(overdue, now, aborted=False) if overdue else None

    def _abandon(self, uids: list[str], now: float, aborted: bool) -> Action:
        mark = self.ledger.abort if aborted else self.ledger.give_up
        for uid in uids:
            mark(uid, now)
        return Action(ABANDON, uids=tuple(uids))

    def _finish(self, now: float) -> Action:
        running = self.ledger.pending()
        if not running:
            return Action(END, outcome=FULL)
        if self.bounds.abort_surplus or self._out_of_time(now):
            return self._abandon(running, now, aborted=True)
        return Action(WAIT)

    def _sendable(self, now: float) -> int:
        left = self.bounds.generated_limit() - self.ledger.generated
        if self._out_of_time(now):
            return 0
        return max(0, min(left, self.planner.plan(self.ledger.progress(self.planner.open_share), self.estimate)))

    def _out_of_time(self, now: float) -> bool:
        limit = self.bounds.max_seconds
        return limit is not None and now - self.ledger.started_at >= limit

    def _exhausted(self) -> Action:
        sent_all = self.ledger.generated >= self.bounds.generated_limit()
        self.exhausted_by = (
            f"{self.bounds.generated_limit()} generated prompts" if sent_all else f"{self.bounds.max_seconds} seconds"
        )
        if self.bounds.on_exhausted == "error":
            raise SamplingExhausted(self.explain())
        partial = self.bounds.on_exhausted == TRAIN_PARTIAL and self.ledger.kept > 0
        return Action(END, outcome=TRAIN_PARTIAL if partial else SKIP_STEP)
