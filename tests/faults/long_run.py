"""Many small steps of the tiny recipe: does anything grow, and what is left behind?"""

import contextlib
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable
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
_SHM, _TMP = Path("/dev/shm"), Path("/tmp")
_OURS = re.compile(r"(^|[^a-z])(ray|vllm|torch|verl|transfer)", re.IGNORECASE)
"""Names in /tmp of what this run's programs write there when they do not heed `TMPDIR`."""
_RSS = {"memory_mb": "RssAnon", "shared_mb": "RssShmem"}


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
        shm, tmp = owned(_SHM), in_tmp()
        start = Start(TRAIN, words(scratch, steps), scratch.log, scratch.environment)
        try:
            _watch(start, scratch.run_dir, steps, shm, found)
            left = start.orphans(20.0)
        finally:
            start.kill()
        status, done = start.child.poll(), _steps(scratch.run_dir)
        outside = sorted((owned(_SHM) - shm) | (in_tmp() - tmp))
        leftovers = [*scratch.leftovers(), *map(str, outside)]
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


def owned(folder: Path) -> set[Path]:
    """What this user has in `folder`; nothing where there is no such folder.

    Names do not matter, since a library may come to use others. Another run of the same user meanwhile is in it too.
    """
    with contextlib.suppress(FileNotFoundError):
        return {path for path in folder.iterdir() if _uid(path) == os.getuid()}
    return set()


def in_tmp() -> set[Path]:
    """What this user has in /tmp of Ray's, torch's and the like, though a run has a temporary folder of its own.

    By name, since every other program writes there.
    """
    return {path for path in owned(_TMP) if _OURS.search(path.name)} | owned(_TMP / "ray")


def _uid(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):  # gone meanwhile
        return path.lstat().st_uid
    return None


def _used_mb(paths: Iterable[Path]) -> float:
    """Memory that files of /dev/shm take, which may be less than their size."""
    used = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            used += path.lstat().st_blocks * 512
    return used / 2**20


def _sample(start: Start, shm: set[Path], found: Any) -> None:
    """Add one value of every quantity of every process, and of all together: processes come and go.

    Those of one name have the process id added.
    """
    rows = []
    for process in start.alive():
        with contextlib.suppress(psutil.Error, OSError):
            if row := _taken(process):
                rows.append((f"{_title(process)} {process.pid}", row))
    for name, row in rows:
        _add(found[name], row)
    segments = owned(_SHM) - shm
    together = {"processes": len(rows), "memory_mb": sum(row["memory_mb"] for _, row in rows)}
    _add(found["all"], together | {"segments": len(segments), "segments_mb": _used_mb(segments)})


def _add(values: dict[str, list[float]], row: dict[str, float]) -> None:
    for quantity, value in row.items():
        values[quantity].append(value)


def _taken(process: psutil.Process) -> dict[str, float] | None:
    """Memory of its own, shared memory that it has touched, open files and threads; None of a zombie."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    kilobytes = {key: re.search(rf"{field}:\s+(\d+) kB", status) for key, field in _RSS.items()}
    row = {key: int(match[1]) / 1024 for key, match in kilobytes.items() if match}
    if len(row) < len(_RSS):
        return None
    return row | {"files": process.num_fds(), "threads": process.num_threads()}


def _title(process: psutil.Process) -> str:
    """A short name: Ray's title of an actor, the module of a Python process, or the program."""
    line = command_line(process)
    if line.startswith(("ray::", "VLLM::")):
        return line.split()[0].split(".")[0]
    module = re.search(r" -m ([\w.]+)|/(\w+\.py)", line)
    return next(filter(None, module.groups()), "") if module else process.name()
