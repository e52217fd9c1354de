"""Runs one phase in a process of its own, measures it, and leaves nothing behind."""

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from recipe.leftovers import end_all, remove_segments, runs, segments
from recipe.scratch import remove_folders

_PR_SET_CHILD_SUBREAPER = 36


class PhaseFailed(RuntimeError):
    """A phase ended with a non-zero status; the message names its log."""


def adopt_orphans() -> None:
    """Make this process the parent of every orphaned descendant (Ray detaches its daemons), so that none is lost."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def descendants() -> list[psutil.Process]:
    """All living descendants of this process, zombies left out."""
    return [process for process in psutil.Process().children(recursive=True) if runs(process)]


def end_descendants() -> int:
    """SIGTERM every descendant, SIGKILL what is left after a while; return how many there were."""
    return end_all(descendants, _reap)


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
