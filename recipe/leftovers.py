"""What a training can leave on this machine: processes and shared-memory segments."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

_GRACE_S = 10.0  # between SIGTERM and SIGKILL
_SEGMENTS = ("psm_*", "verl_weights_*", "sem.mp-*")


def runs(process: psutil.Process) -> bool:
    """Whether a process still runs: a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all(
    find: Callable[[], list[psutil.Process]], between: Callable[[], None] = lambda: None, grace_s: float = _GRACE_S
) -> int:
    """SIGTERM every process that `find` returns, SIGKILL what is left after `grace_s` seconds.

    Args:
        between: called while it waits.

    Returns:
        How many there were.
    """
    found = find()
    for process in found:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while find() and time.monotonic() < deadline:
        between()
        time.sleep(0.1)
    while left := find():  # a process may still be forking
        for process in left:
            _signal(process, signal.SIGKILL)
        between()
        time.sleep(0.05)
    return len(found)


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def segments() -> set[Path]:
    """The shared-memory segments of this kind of run that exist now."""
    return {path for pattern in _SEGMENTS for path in Path("/dev/shm").glob(pattern)}


def remove_segments(before: set[Path]) -> list[str]:
    """Unlink shared-memory segments of killed processes: not there `before`, and mapped by nobody now.

    Names and not times tell what is new: a clock may jump while a run goes on.
    """
    candidates: dict[Path, int] = {}
    for path in segments() - before:
        with contextlib.suppress(FileNotFoundError):  # another run may unlink its own
            status = path.stat()
            if status.st_uid == os.getuid():
                candidates[path] = status.st_ino
    mapped = _mapped_inodes() if candidates else set()
    removed = [path for path, inode in candidates.items() if inode not in mapped]
    for path in removed:
        path.unlink(missing_ok=True)
    return [path.name for path in removed]


def _mapped_inodes() -> set[int]:
    """Inodes that some process maps; a name would not do, since semaphores are mapped before they get theirs."""
    inodes: set[int] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            inodes.update(int(line.split(maxsplit=5)[4]) for line in maps.read_text().splitlines())
        except OSError:  # the process has ended
            continue
    return inodes
