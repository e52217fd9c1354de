"""Runs one phase in a process of its own, measures it, and leaves nothing behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from recipe.scratch import remove_folders

_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 10.0  # between SIGTERM and SIGKILL
_SEGMENTS = ("psm_*", "verl_weights_*", "sem.mp-*")


class PhaseFailed(RuntimeError):
    """A phase ended with a non-zero status; the message names its log."""


def adopt_orphans() -> None:
    """Make this process the parent of every orphaned descendant (Ray detaches its daemons), so that none is lost."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def descendants() -> list[psutil.Process]:
    """All living descendants of this process, zombies left out."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def end_descendants(grace_s: float = _GRACE_S) -> int:
    """SIGTERM every descendant, SIGKILL what is left after `grace_s` seconds; return how many there were."""
    found = descendants()
    for process in found:
        _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while descendants() and time.monotonic() < deadline:
        _reap()
        time.sleep(0.1)
    while left := descendants():  # a process may still be forking
        for process in left:
            _signal(process, signal.SIGKILL)
        _reap()
        time.sleep(0.05)
    return len(found)


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


class MemoryMeter:
    """Peak of the proportional set size (shared pages counted once) of this process and its descendants."""

    def __init__(self, interval_s: float = 3.0):
        self.peak_bytes = 0
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def take_peak(self) -> int:
        """The peak in bytes since the last call, which the next call starts anew."""
        peak, self.peak_bytes = self.peak_bytes, 0
        return peak

    def __enter__(self) -> "MemoryMeter":
        """Start watching."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching; `peak_bytes` stays."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._interval_s):
            pids = [os.getpid(), *(p.pid for p in descendants())]
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss, pids)))


def run_phase(command: list[str], log: Path, tick: Callable[[], None], environment: dict[str, str]) -> None:
    """Run `command` with all output appended to `log`, calling `tick` twice a second.

    Whatever happens, Ctrl-C included, no descendant, no shared-memory segment and no scratch folder is left.

    Raises:
        PhaseFailed: the command ended with another status than 0.
    """
    before = segments()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the others in order
        )
        try:
            while child.poll() is None:
                tick()
                time.sleep(0.5)
            tick()
        finally:
            end_descendants()
            child.wait()
            remove_segments(before)
            remove_folders(child.pid)
    if child.returncode != 0:
        raise PhaseFailed(f"ended with status {child.returncode}; last lines of {log}:\n{tail(log)}")


def tail(path: Path, lines: int = 12) -> str:
    """Last lines of a log, for an error message."""
    with path.open("rb") as f:
        f.seek(max(0, path.stat().st_size - 20_000))
        text = f.read().decode(errors="replace")
    return "\n".join("  " + line[:300] for line in text.strip().splitlines()[-lines:])


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _reap() -> None:
    """Collect children that have ended, adopted orphans among them."""
    for process in psutil.Process().children():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(process.pid, os.WNOHANG)
        except (psutil.NoSuchProcess, ChildProcessError):
            continue


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _mapped_inodes() -> set[int]:
    """Inodes that some process maps; a name would not do, since semaphores are mapped before they get theirs."""
    inodes: set[int] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            inodes.update(int(line.split(maxsplit=5)[4]) for line in maps.read_text().splitlines())
        except OSError:  # the process has ended
            continue
    return inodes
