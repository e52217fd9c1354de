"""A chain of starts of one run: each shows that the faults before it are overcome, and is hit by the next."""

import contextlib
import hashlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recipe.leftovers import remove_segments, segments
from tests.e2e.conftest import prompts_in_order, run_module
from tests.faults import damage, recovery, updates, verdict
from tests.faults.ledger import Ledger
from tests.faults.plan import LOOP, TRAIN, Fault
from tests.faults.processes import Start, kill_all, marked
from tests.faults.recipe import PASSES, SEED, words
from tests.faults.updates import Saved

_FIRST_S, _START_S, _STEP_S, _END_S, _REPORT_S = 900, 420, 120, 150, 300
"""Longest waits in seconds: from the first command to a step (it prepares and evaluates before), from another, for a
step, for an end, for a report."""
_GRACE_S = {LOOP: 2.0, TRAIN: 20.0}
"""Seconds that what is left of a start may take to end: the loop itself waits; a killed driver has its caretaker."""
_FOREVER = 1_000_000
_RESPONSE = '<details class="response'


class NotDone(RuntimeError):
    """A fault could not be done as planned; the message is one of its problems."""


class Stopped(RuntimeError):
    """The campaign should not go on; the message says why."""


class Campaign:
    """The run under `folder`, and the faults that are done to it."""

    def __init__(self, folder: Path, faults: Sequence[Fault], ledger: Ledger):
        self.folder, self.run_dir, self.faults, self.ledger = folder, folder / "run", faults, ledger
        self.checkpoints, self.data = self.run_dir / "checkpoints", self.run_dir / "data" / "train.parquet"
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
        self._mark = f"faults-{name}"
        self._temporary = Path(tempfile.gettempdir()) / f"f{name}"  # short: Ray's sockets are in it
        self._starts = 0
        self._order: list[str] = []

    def run(self, minutes: float | None = None) -> dict[str, Any]:
        """Do those of the faults that are not done yet, begin none after so many minutes, and return the summary.

        Raises:
            Stopped: one fault after the other is lost.
        """
        self._tidy_up()
        until = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
        todo = [fault for fault in self.faults if fault.number not in self.ledger.done]
        for fault in todo:
            if time.monotonic() >= until:
                break
            record = self._hit(fault) if fault.live else self._damage(fault)
            self.ledger.add(record)
            print(f"[{fault.number + 1}/{len(self.faults)}] {fault}: {record['last_line'][:150]}", flush=True)
            if self.ledger.in_trouble():
                raise Stopped(f"one fault after the other is lost: see {self.folder}; --again does them once more")
        left = [fault.number for fault in self.faults if fault.number not in self.ledger.done]
        if not left and self.ledger.pending:
            self._reach_the_end()
        if not left and len(self.ledger.records) != len(self.faults):
            raise Stopped(f"{len(self.ledger.records)} records of {len(self.faults)} faults in {self.folder}")
        result = verdict.summary(self.ledger.records, self.ledger.lost_before)
        return result | {"left": len(left), "not_judged": len(self.ledger.pending)}

    def _tidy_up(self) -> None:
        """Put away what a campaign that was killed has left: processes, segments, a small disk, corrupted data."""
        kill_all(lambda: marked(self._mark))
        if self.ledger.segments is not None:
            remove_segments({Path("/dev/shm") / name for name in self.ledger.segments})
        shutil.rmtree(self._temporary, ignore_errors=True)
        damage.put_right(self.data)
        damage.put_back(self.checkpoints)

    # ------------------------------------------------------------------ one start

    @contextlib.contextmanager
    def _start(self, module: str, steps: int = _FOREVER, clock: bool = False) -> Iterator[Start]:
        """A start of which nothing is left after the block."""
        self._starts += 1
        before = segments()
        self.ledger.starts(before)
        self._temporary.mkdir(exist_ok=True)
        log = self.folder / "starts" / f"{time.strftime('%d-%H%M%S')}-{self._starts:03d}.log"
        environment = damage.clock_environment(self.folder) if clock else {}
        environment |= {"TMPDIR": str(self._temporary)}
        start = Start(module, words(self.run_dir, steps), log, environment, self._mark)
        try:
            yield start
        finally:
            start.kill()
            remove_segments(before)
            shutil.rmtree(self._temporary, ignore_errors=True)

    @contextlib.contextmanager
    def _started(self, module: str, **how) -> Iterator[tuple[Start, "Progress"]]:
        """A start that is judged once it has ended: whatever was pending before it must be overcome by it."""
        before = recovery.last_complete(self.run_dir)
        saved = Saved.read(self._checkpoint(before)) if before else None
        known = recovery.attempts(self.run_dir)
        with self._start(module, **how) as start:
            progress = Progress(self.run_dir, known, start)
            yield start, progress
        self._judge(before, saved, progress)

    def _checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"global_step_{step}"

    def _judge(self, before: int, saved: Saved | None, progress: "Progress") -> None:
        """Settle the faults before this start, if it has trained."""
        path = progress.path()
        if path is None or not recovery.logged(path):
            return
        try:
            found = recovery.problems(self.run_dir, path, before, self._verls_order())
            first = next((step for step in recovery.complete(self.run_dir) if step > before), None)
            if saved is not None and first is not None:
                found += updates.problems(saved, Saved.read(self._checkpoint(first)))
            carried = recovery.carried(self.run_dir, before)
        except (OSError, ValueError, KeyError) as error:  # a file that a run should have written, and has not
            found, carried = [f"what the run wrote cannot be judged: {error!r}"], 0
        self._settle(found, before, progress.first_step_s, carried)

    def _settle(self, problems: list[str], before: int, seconds: float | None, carried: int = 0) -> None:
        for record in self.ledger.settle(problems, before, seconds, carried):
            state = "LOST: " + "; ".join(record["problems"]) if record["problems"] else "overcome"
            print(f"    {record['fault']}: {state}, from step {before}, {seconds} s", flush=True)

    def _verls_order(self) -> list[str]:
        if not self._order:
            self._order = prompts_in_order(self.data, SEED, PASSES)
        return self._order

    # ------------------------------------------------------------------ one fault

    def _hit(self, fault: Fault) -> dict[str, Any]:
        """Start the run, do the fault at its moment, and see how the run ends."""
        problems: list[str] = []
        record = {"number": fault.number, "kind": fault.kind, "fault": str(fault), "problems": problems, "how": ""}
        disk = damage.small_disk(self.checkpoints) if fault.kind == "full_disk" else contextlib.nullcontext()
        longest = _START_S if recovery.attempts(self.run_dir) else _FIRST_S
        with disk, self._started(str(fault.by), clock=fault.kind == "clock_jump") as (start, progress):
            if fault.steps:
                start.wait(longest, lambda: progress.steps() >= fault.steps)
            start.wait(fault.delay_s)
            if progress.steps() < fault.steps:
                problems.append(f"only {progress.steps()} steps before the fault")
            if start.child.poll() is not None:
                problems.append("ended before the fault")
            try:
                with self._fault(fault, start, progress) as how:
                    record["how"] = how
                    start.wait(_END_S)
            except NotDone as error:
                problems.append(str(error))
                start.child.send_signal(signal.SIGTERM)
                start.wait(_END_S)
            record |= self._ending(fault, start, problems)
        return record

    @contextlib.contextmanager
    def _fault(self, fault: Fault, start: Start, progress: "Progress") -> Iterator[str]:
        rng = random.Random(f"{fault.number} {fault}")
        if fault.kind == "full_disk":
            with damage.full_disk(self.checkpoints, self._victim(start, "kill_trainer")) as how:
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
        told = {kind: self._victim(start, kind).pid for kind in ("kill_driver", "kill_trainer")}
        damage.set_clock(self.folder, seconds)
        reached = progress.steps()
        trained_on = start.wait(2 * _STEP_S, lambda: progress.steps() >= reached + 2)
        start.child.send_signal(signal.SIGTERM)
        if not trained_on:
            raise NotDone(f"no further step after the clock jumped by {seconds:+d} s")
        if unaware := [name for name, pid in told.items() if pid not in damage.saw_clock(self.folder)]:
            raise NotDone(f"the clock did not jump for {', '.join(unaware)}")
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
        if scratch := [path.name for path in self._temporary.glob("dapo-*")]:
            problems.append(f"temporary folders left: {scratch}")
        # a driver that is killed, or terminated before it listens, says nothing; who started it sees the signal
        silent = fault.kind == "kill_driver" and fault.by == TRAIN
        silent |= start.child.poll() == -signal.SIGTERM and not fault.steps
        if not hung and not verdict.clear(output) and not silent:
            problems.append(f"unclear last line: {verdict.last_line(output)[:200]}")
        if start.child.poll() == 0:
            problems.append("ended with status 0")
        return {"status": start.child.poll(), "last_line": verdict.last_line(output)}

    # ------------------------------------------------------------------ damage at rest

    def _damage(self, fault: Fault) -> dict[str, Any]:
        rng = random.Random(f"{fault.number} {fault}")
        record: dict[str, Any] = {"number": fault.number, "kind": fault.kind, "fault": str(fault)}
        record |= {"problems": [], "last_line": ""}
        if fault.kind == "truncated_checkpoint":
            record |= self._truncated(rng)
        elif fault.kind == "corrupted_data":
            with damage.corrupted_page(self.data, rng) as how:
                record["how"] = how
                record["problems"] += self._refused(rng.choice((LOOP, TRAIN)))
        else:
            record["how"] = damage.remove_rollout(self.run_dir, rng)
            record["problems"] += self._report()
        return record

    def _truncated(self, rng: random.Random) -> dict[str, Any]:
        """Cut the newest checkpoint short, if there is another: without one no run could go on."""
        complete = recovery.complete(self.run_dir)
        if len(complete) < 2:
            return {"problems": [f"not done: the complete checkpoints are {complete}"], "how": "not done"}
        how = damage.truncate_checkpoint(self._checkpoint(complete[-1]), rng)
        whole = [f"still complete: {how}"] if recovery.last_complete(self.run_dir) == complete[-1] else []
        return {"how": how, "problems": whole}

    def _report(self) -> list[str]:
        """The report is drawn from what is there."""
        out = self.run_dir / "report"
        try:
            done = run_module("eval.report", self.run_dir, "--out", out, check=False, timeout=_REPORT_S)
        except subprocess.TimeoutExpired:
            return [f"the report did not end within {_REPORT_S} s"]
        if done.returncode:
            return [f"the report ended with {done.returncode}: {done.stderr[-300:]}"]
        return [] if _RESPONSE in (out / "index.html").read_text() else ["the report shows no response"]

    def _refused(self, module: str) -> list[str]:
        """A start on data that are not this run's trains nothing and says why."""
        before = recovery.attempts(self.run_dir), recovery.complete(self.run_dir)
        with self._start(module) as start:
            start.wait(_STEP_S)
            hung, orphans = start.child.poll() is None, start.orphans(_GRACE_S[module])
        output = start.log.read_text(errors="replace")
        found = [f"{module} did not end"] if hung else []
        found += [f"left running: {orphans}"] if orphans and not hung else []
        if before != (recovery.attempts(self.run_dir), recovery.complete(self.run_dir)):
            found.append(f"{module} trained on corrupted data")
        found += [] if start.child.returncode else [f"{module} ended with status 0 on corrupted data"]
        found += [] if verdict.refuses(output, "train.parquet") else [f"unclear: {verdict.last_line(output)[:200]}"]
        return found

    # ------------------------------------------------------------------ the end

    def _reach_the_end(self) -> None:
        """A last start trains two steps and ends by itself; without it the last fault would not be judged."""
        before = recovery.last_complete(self.run_dir)
        target, pending = before + 2, self.ledger.pending
        with self._started(TRAIN, steps=target) as (start, progress):
            start.wait(_START_S, lambda: progress.steps() < 0)  # never true, but the first step is noticed
            problems = [] if start.child.poll() == 0 else [f"the last start ended with {start.child.poll()}"]
            problems += [f"left running: {left}"] if (left := start.orphans(_GRACE_S[TRAIN])) else []
            if recovery.last_complete(self.run_dir) != target:
                problems.append(f"the target, step {target}, was not reached")
            for record in pending:
                record["problems"] += problems
        if self.ledger.pending:
            self._settle([f"the last start trained nothing; see {start.log}"], before, None)


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
            self.first_step_s = round(time.monotonic() - self._start.began, 1)
        return count
