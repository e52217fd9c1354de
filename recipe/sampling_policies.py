"""Three ways to fill a batch of kept groups, run on the same trace and the same engine: ours, fixed, verl's own.

``ours`` runs the very controller that the real sampler runs. ``fixed_batch`` is the older recipe: a generation batch of
``3 x train batch``, filtered when all of it is there, again until enough are kept. ``verl_builtin`` is in
``recipe.sampling_builtin``. A policy fills one step and leaves the engine idle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from recipe.acceptance import AcceptanceEstimate, DispatchPlanner
from recipe.decode_engine import DecodeEngine
from recipe.dispatch import ABANDON, DISPATCH, END, Bounds, StepController
from recipe.group_filter import Filter, Group, is_settled
from recipe.sampling_trace import TraceGroup
from recipe.step_ledger import StepLedger

POLL_S = 2.0  # verl's built-in sampler looks every 2 seconds; the others are given the same eyes


@dataclass
class Rollout:
    """Engine and data of one policy: prompts come from ``groups`` in order, again from the start when they end."""

    groups: list[TraceGroup]
    engine: DecodeEngine
    sent: dict[str, TraceGroup] = field(default_factory=dict)
    calls: int = 0

    def send(self, count: int) -> list[str]:
        """Submit the next ``count`` prompts; their uids in dispatch order."""
        self.calls += 1
        return [self._send_one() for _ in range(count)]

    def wait(self, poll_s: float = POLL_S, samples: bool = False) -> list[str]:
        """Sleep until the first poll that finds a finished group (or sample); the groups finished by then.

        Raises ``RuntimeError`` when nothing is in flight: a real sampler would wait for ever.
        """
        end = self.engine.next_sample_end() if samples else self.engine.next_group_end()
        if math.isinf(end):
            raise RuntimeError("the policy waits for a group but none is in flight: it would wait for ever")
        return self.engine.advance(max(end, math.ceil(end / poll_s - 1e-9) * poll_s))

    def _send_one(self) -> str:
        uid = f"p{len(self.sent)}"
        self.sent[uid] = self.groups[len(self.sent) % len(self.groups)]
        self.engine.submit(uid, self.sent[uid].lengths)
        return uid


class Policy(Protocol):
    """Fills one step."""

    def step(self, rollout: Rollout, needed: int) -> list[str]:
        """Send prompts until ``needed`` groups are kept; the uids of the groups to train on."""
        ...


@dataclass
class Ours:
    """The recipe's own sampler, its planner and ledger included; the estimate lives across steps."""

    group_filter: Filter
    planner: DispatchPlanner
    estimate: AcceptanceEstimate = field(default_factory=AcceptanceEstimate)
    abort_surplus: bool = False
    see_samples: bool = True

    def step(self, rollout: Rollout, needed: int) -> list[str]:
        """Follow the controller until it says end."""
        ledger = StepLedger(needed, rollout.engine.now)
        bounds = Bounds(max_generated=1000 * needed, abort_surplus=self.abort_surplus)
        control = StepController(ledger, self.planner, self.estimate, bounds)
        while (action := control.next_action(rollout.engine.now)).kind != END:
            if action.kind == DISPATCH:
                ledger.dispatch(rollout.send(action.count), rollout.engine.now)
            elif action.kind == ABANDON:
                rollout.engine.abort(action.uids)
            else:
                self._collect(rollout, ledger)
        control.close()
        return ledger.selected()

    def _collect(self, rollout: Rollout, ledger: StepLedger) -> None:
        for uid in rollout.wait(samples=self.see_samples):
            decision = self.group_filter.decide(rollout.sent[uid].group())
            ledger.resolve(uid, decision, rollout.engine.now, rollout.engine.decoded[uid])
        for uid in rollout.engine.take_touched() if self.see_samples else ():
            acc = rollout.sent[uid].acc
            arrived = [acc[i] for i in rollout.engine.arrived[uid]]
            known = ledger.entries[uid].settled
            settled = known or is_settled(self.group_filter, Group(arrived), len(acc))
            ledger.foresee(uid, len(arrived), len(acc), settled)


@dataclass
class FixedBatch:
    """Rounds of ``factor x needed`` prompts, each waited for to its last answer; groups over the need are dropped."""

    group_filter: Filter
    factor: int = 3

    def step(self, rollout: Rollout, needed: int) -> list[str]:
        """Repeat rounds until enough groups are kept."""
        kept: list[str] = []
        while len(kept) < needed:
            uids = rollout.send(self.factor * needed)
            for _ in self._drain(rollout, len(uids)):
                pass
            kept += [u for u in uids if self.group_filter.decide(rollout.sent[u].group()).keep]
        return kept[:needed]

    @staticmethod
    def _drain(rollout: Rollout, count: int) -> Iterator[str]:
        while count:
            done = rollout.wait()
            count -= len(done)
            yield from done
