"""Many small steps of the tiny recipe: does anything grow, and what is left behind?"""

import contextlib
import os
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks import sampler
from tests.faults import recovery, series
from tests.faults.plan import TRAIN
from tests.faults.processes import Start, command_line
from tests.faults.recipe import batch
from tests.faults.scratch import Scratch, shipped_words

_SAMPLE_S = 5.0
_START_S, _STEP_S, _STALLED_S = 420, 10, 240
"""Most seconds to the first step, a step on average, and from any step to the next."""
_SHM = Path("/dev/shm")


def words(scratch: Scratch, steps: int) -> list[str]:
    """Overrides of `recipe.main_dapo`: four groups of four, which the base model fills in about one wave.

    Every part of a step runs, but the weights stay: a model that learns is right ever more often, so ever more groups
    are sent for a batch, and what that takes would look like a leak.
    """
    return [*shipped_words(scratch, steps), *batch(groups=4, samples=4), sampler.STILL, "trainer.save_freq=50"]


def run(folder: Path, steps: int) -> dict[str, Any]:
    """Train `steps` steps in `folder`; return problems, what every process took, and what was left."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Scratch(folder, "long") as scratch:
        shm = _segments()
        start = Start(TRAIN, words(scratch, steps), scratch.log, scratch.environment)
        try:
            _watch(start, scratch.run_dir, steps, shm, found)
            left = start.orphans(20.0)
        finally:
            start.kill()
        status, done = start.child.poll(), _steps(scratch.run_dir)
        leftovers = [*scratch.leftovers(), *(str(path) for path in sorted(_segments() - shm))]
    problems = series.problems(found)
    problems += [f"ended with status {status} after {done} of {steps} steps"] if status or done != steps else []
    problems += [f"left running: {left}"] if left else []
    problems += [f"left behind: {leftovers}"] if leftovers else []
    return {"steps": done, "problems": problems, "processes": series.table(found), "left": leftovers}


def _watch(start: Start, run_dir: Path, steps: int, shm: set[Path], found: Any) -> None:
    """Sample every process from the first step to the end, or to a step that does not come."""
    deadline = time.monotonic() + _START_S + steps * _STEP_S
    if not start.wait(_START_S, lambda: _steps(run_dir) > 0):
        return
    said, done, since = 0, 0, time.monotonic()
    while start.child.poll() is None and time.monotonic() < min(deadline, since + _STALLED_S):
        _sample(start, shm, found)
        if (now := _steps(run_dir)) > done:
            done, since = now, time.monotonic()
        if done >= said + 25:
            said = done
            print(f"    step {done} of {steps}", flush=True)
        start.wait(_SAMPLE_S)


def _steps(run_dir: Path) -> int:
    paths = recovery.attempts(run_dir)
    return max(recovery.logged(paths[-1]), default=0) if paths else 0


def _sample(start: Start, shm: set[Path], found: Any) -> None:
    """Add one value of every quantity of every process; those of one name have the process id added."""
    memory, processes = 0.0, 0
    for process in start.alive():
        with contextlib.suppress(psutil.Error, OSError, KeyError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            anonymous, shared = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("RssAnon", "RssShmem"))
            if anonymous is None or shared is None:  # a zombie
                continue
            values = found[f"{_title(process)} {process.pid}"]
            values["memory_mb"].append(int(anonymous[1]) / 1024)
            values["shared_mb"].append(int(shared[1]) / 1024)
            values["files"].append(process.num_fds())
            values["threads"].append(process.num_threads())
            memory, processes = memory + int(anonymous[1]) / 1024, processes + 1
    together = found["all"]
    together["memory_mb"].append(memory)
    together["processes"].append(processes)
    together["segments"].append(len(_segments() - shm))


def _segments() -> set[Path]:
    """What this user has in shared memory; others of this machine may have theirs."""
    found = set()
    for path in _SHM.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_uid == os.getuid():
                found.add(path)
    return found


def _title(process: psutil.Process) -> str:
    """A short name: Ray's title of an actor, the module of a Python process, or the program."""
    line = command_line(process)
    if line.startswith(("ray::", "VLLM::")):
        return line.split()[0].split(".")[0]
    module = re.search(r" -m ([\w.]+)|/(\w+\.py)", line)
    return next(filter(None, module.groups()), "") if module else process.name()
