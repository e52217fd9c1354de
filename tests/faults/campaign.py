"""A chain of starts of one run: each shows that the faults before it are overcome, and is hit by the next."""

import contextlib
import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recipe.loop.processes import remove_segments, segments
from tests.e2e.conftest import prompts_in_order, run_module
from tests.faults import damage, recovery, verdict
from tests.faults.plan import LOOP, TRAIN, Fault
from tests.faults.processes import Start
from tests.faults.recipe import SEED, words

_START_S, _STEP_S, _END_S = 420, 120, 150
"""Longest waits: from a command to a step (the first start prepares and evaluates first), for a step, for an end."""
_GRACE_S = {LOOP: 2.0, TRAIN: 20.0}
"""Seconds that what is left of a start may take to end: the loop promises that nothing is left."""
_FOREVER = 1_000_000
_PASSES = 40


class NotDone(RuntimeError):
    """A fault could not be done as planned; the message is one of its problems."""


class Campaign:
    """The run under `folder`, and the record of the faults that it has overcome."""

    def __init__(self, folder: Path):
        self.folder, self.run_dir = folder, folder / "run"
        self.results = folder / "faults.jsonl"
        self.records: list[dict[str, Any]] = []
        if self.results.is_file():
            self.records = [json.loads(line) for line in self.results.read_text().splitlines()]
        self._pending: list[dict[str, Any]] = []
        self._starts = 0
        self._order: list[str] = []
        damage.put_back(self.run_dir / "checkpoints")

    def run(self, faults: list[Fault]) -> dict[str, Any]:
        """Do those of the faults that have no record yet, end the run, and return the summary."""
        done = {record["number"] for record in self.records}
        for fault in faults:
            if fault.number not in done:
                before = segments()
                self._pending.append(self._hit(fault) if fault.live else self._damage(fault))
                remove_segments(before)
                if not fault.live:
                    continue
                said = self._pending[-1]
                print(f"[{fault.number + 1}/{len(faults)}] {fault}: {said['last_line'][:150]}", flush=True)
        if self._pending:
            self._reach_the_end()
        return verdict.summary(self.records)

    def close(self) -> None:
        """Take the small disk away; the checkpoints go with it."""
        damage.put_back(self.run_dir / "checkpoints")

    # ------------------------------------------------------------------ one start

    def _start(self, module: str, steps: int = _FOREVER, clock: bool = False) -> Start:
        self._starts += 1
        log = self.folder / "starts" / f"{time.strftime('%H%M%S')}-{self._starts:03d}.log"
        environment = damage.clock_environment(self.folder) if clock else {}
        return Start(module, words(self.run_dir, steps), log, environment)

    @contextlib.contextmanager
    def _started(self, module: str, **how) -> Iterator[tuple[Start, "Progress"]]:
        """A start that is judged once it has ended: whatever was pending before it must be overcome by it."""
        before = recovery.last_complete(self.run_dir)
        known = recovery.attempts(self.run_dir)
        start = self._start(module, **how)
        progress = Progress(self.run_dir, known, start)
        try:
            yield start, progress
        finally:
            start.kill()
        self._judge(before, progress)

    def _judge(self, before: int, progress: "Progress") -> None:
        """Settle the faults before this start, if it has trained."""
        path = progress.path()
        if path is None or not recovery.logged(path):
            return
        found = recovery.problems(self.run_dir, path, before, self._verls_order())
        for record in self._pending:
            record["problems"] += found
            record |= {"resumed_from": before, "seconds_to_recover": progress.first_step_s}
            self._write(record)
        self._pending = []

    def _write(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        with self.results.open("a") as f:
            f.write(json.dumps(record) + "\n")
        state = "LOST: " + "; ".join(record["problems"]) if record["problems"] else "overcome"
        seconds = record["seconds_to_recover"]
        print(f"    {record['fault']}: {state}, step {record['resumed_from']}, {seconds} s", flush=True)

    def _verls_order(self) -> list[str]:
        if not self._order:
            self._order = prompts_in_order(self.run_dir / "data" / "train.parquet", SEED, _PASSES)
        return self._order

    # ------------------------------------------------------------------ one fault

    def _hit(self, fault: Fault) -> dict[str, Any]:
        """Start the run, do the fault at its moment, and see how the run ends."""
        problems: list[str] = []
        record = {"number": fault.number, "kind": fault.kind, "fault": str(fault), "problems": problems, "how": ""}
        with self._started(str(fault.by), clock=fault.kind == "clock_jump") as (start, progress):
            if fault.steps:
                start.wait(_START_S, lambda: progress.steps() >= fault.steps)
            start.wait(fault.delay_s)
            if progress.steps() < fault.steps:
                problems.append(f"only {progress.steps()} steps before the fault")
            try:
                with self._fault(fault, start, progress) as how:
                    record["how"] = how
                    start.wait(_END_S)
            except NotDone as error:
                problems.append(str(error))
            record |= self._ending(fault, start, problems)
        return record

    @contextlib.contextmanager
    def _fault(self, fault: Fault, start: Start, progress: "Progress") -> Iterator[str]:
        rng = random.Random(f"{fault.number} {fault}")
        if fault.kind == "full_disk":
            with damage.full_disk(self.run_dir / "checkpoints", self._victim(start, "kill_trainer")) as how:
                yield how
        elif fault.kind == "clock_jump":
            yield self._jump(rng, start, progress)
        elif fault.kind == "sigterm":
            start.child.send_signal(signal.SIGTERM)
            yield "SIGTERM"
        else:
            self._victim(start, fault.kind).send_signal(signal.SIGKILL)
            yield "SIGKILL"

    def _victim(self, start: Start, kind: str):
        start.wait(60, lambda: start.victim(kind) is not None)
        victim = start.victim(kind)
        if victim is None:
            raise NotDone(f"no process for {kind}; the output is in {start.log}")
        return victim

    def _jump(self, rng: random.Random, start: Start, progress: "Progress") -> str:
        """Let the clock jump, see the run train on, then end it as a person would."""
        seconds = rng.choice((-1, 1)) * rng.choice((90, 3600, 86400))
        damage.set_clock(self.folder, seconds)
        reached = progress.steps()
        trained_on = start.wait(2 * _STEP_S, lambda: progress.steps() >= reached + 2)
        start.child.send_signal(signal.SIGTERM)
        if not trained_on:
            raise NotDone(f"no further step after the clock jumped by {seconds:+d} s")
        return f"clock {seconds:+d} s, then SIGTERM"

    def _ending(self, fault: Fault, start: Start, problems: list[str]) -> dict[str, Any]:
        """How the command ended after its fault; adds to `problems`."""
        hung = start.child.poll() is None
        if hung:
            problems.append(f"still running {_END_S} s after the fault")
        orphans = [] if hung else start.orphans(_GRACE_S[str(fault.by)])
        output = start.log.read_text(errors="replace")
        if orphans:
            problems.append(f"left running: {orphans}")
        # a driver that is killed says nothing more; who started it sees the signal
        silent = fault.kind == "kill_driver" and fault.by == TRAIN
        if not hung and not verdict.clear(output) and not silent:
            problems.append(f"unclear last line: {verdict.last_line(output)[:200]}")
        if start.child.poll() == 0:
            problems.append("ended with status 0")
        return {"status": start.child.poll(), "last_line": verdict.last_line(output)}

    # ------------------------------------------------------------------ damage at rest

    def _damage(self, fault: Fault) -> dict[str, Any]:
        rng = random.Random(f"{fault.number} {fault}")
        record = {"number": fault.number, "kind": fault.kind, "fault": str(fault), "problems": [], "last_line": ""}
        if fault.kind == "truncated_checkpoint":
            newest = recovery.last_complete(self.run_dir)
            record["how"] = damage.truncate_checkpoint(self.run_dir / "checkpoints" / f"global_step_{newest}", rng)
        elif fault.kind == "corrupted_data":
            with damage.corrupted_page(self.run_dir / "data" / "train.parquet", rng) as how:
                record["how"] = how
                record["problems"] += self._refused(rng.choice((LOOP, TRAIN)))
        else:
            record["how"] = damage.remove_rollout(self.run_dir, rng)
            report = run_module("eval.report", self.run_dir, "--out", self.run_dir / "report", check=False)
            if report.returncode != 0:
                record["problems"].append(f"the report ended with {report.returncode}: {report.stderr[-300:]}")
        return record

    def _refused(self, module: str) -> list[str]:
        """A start on data that are not this run's trains nothing and says why."""
        start = self._start(module)
        start.wait(_STEP_S)
        hung, orphans = start.child.poll() is None, start.orphans(_GRACE_S[module])
        output = start.log.read_text(errors="replace")
        found = [f"{module} did not end"] if hung else []
        found += [f"left running: {orphans}"] if orphans and not hung else []
        found += [] if start.child.returncode else [f"{module} ended with status 0 on corrupted data"]
        found += [] if verdict.refuses(output, "train.parquet") else [f"unclear: {verdict.last_line(output)[:200]}"]
        return found

    # ------------------------------------------------------------------ the end

    def _reach_the_end(self) -> None:
        """A last start trains two steps and ends by itself; without it the last fault would not be judged."""
        target = recovery.last_complete(self.run_dir) + 2
        with self._started(TRAIN, steps=target) as (start, progress):
            start.wait(_START_S)
            problems = [] if start.child.poll() == 0 else [f"the last start ended with {start.child.poll()}"]
            problems += [f"left running: {left}"] if (left := start.orphans(_GRACE_S[TRAIN])) else []
            if recovery.last_complete(self.run_dir) != target:
                problems.append(f"the target, step {target}, was not reached")
            for record in self._pending:
                record["problems"] += problems
            if progress.path() is None and self._pending:
                sys.exit(f"the last start trained nothing; see {start.log}")


class Progress:
    """The steps that one start has logged."""

    def __init__(self, run_dir: Path, known: list[Path], start: Start):
        self._run_dir, self._known, self._start = run_dir, set(known), start
        self.first_step_s: float | None = None

    def path(self) -> Path | None:
        """The metrics of this start, None while there are none."""
        new = [path for path in recovery.attempts(self._run_dir) if path not in self._known]
        return new[-1] if new else None

    def steps(self) -> int:
        """How many steps are logged."""
        path = self.path()
        count = len(recovery.logged(path)) if path is not None else 0
        if count and self.first_step_s is None:
            self.first_step_s = round(time.time() - self._start.began, 1)
        return count
