"""One start of a command: its output, every process that it has had, and the one that a fault is for."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from recipe.leftovers import runs
from tests.e2e.conftest import ROOT, mine

VICTIMS = {
    "kill_driver": r"-m recipe\.main_dapo",
    "kill_trainer": r"^ray::WorkerDict",
    "kill_engine": r"^VLLM::EngineCore",
    "kill_raylet": r"/raylet/raylet ",
    "kill_reward": r"^ray::RewardLoopWorker",
    "kill_prefork": r"-m recipe\.cpu\.prefork\.server",
}
"""By fault, what the command line of the process says that is killed."""
_KILL_S = 60.0


class Start:
    """A running command with its output in a file. `look` often: a process that nobody has seen cannot be missed.

    Its processes have `mark` and a name of their own in their environment, as far as they leave that readable.
    """

    def __init__(
        self, module: str, words: Sequence[str], log: Path, environment: Mapping[str, str], mark: str = "start"
    ):
        self.began, self.log, self._mark = time.monotonic(), log, f"{mark}-{uuid.uuid4().hex}"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stream:
            self.child = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment, "FAULTS_START": self._mark},
                start_new_session=True,
            )
        root = psutil.Process(self.child.pid)
        self._seen = {(root.pid, root.create_time()): root}

    def look(self) -> None:
        """Remember every descendant that is alive now, also of those whose parents have ended."""
        running = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                running.append((process.create_time(), process.pid, process.ppid(), process))
        family = {pid for created, pid, _, _ in running if (pid, created) in self._seen}
        for created, pid, parent, process in sorted(running, key=lambda entry: entry[:2]):
            if parent in family:
                family.add(pid)
                self._seen.setdefault((pid, created), process)

    def alive(self) -> list[psutil.Process]:
        """Processes of this start that run still, the command itself among them; zombies left out."""
        self.look()
        found = {p.pid: p for p in [*self._seen.values(), *mine(self._mark)] if p.pid != os.getpid()}
        return [p for p in found.values() if runs(p)]

    def wait(self, seconds: float, until=lambda: False) -> bool:
        """Watch until the command has ended (False), `until()` holds (True) or time is up (False)."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.child.poll() is None:
            self.look()
            if until():
                return True
            time.sleep(0.3)
        return False

    def victim(self, kind: str) -> psutil.Process | None:
        """The living process that a fault of this kind is for."""
        for process in self.alive():
            if re.search(VICTIMS[kind], command_line(process)):
                return process
        return None

    def orphans(self, grace_s: float) -> list[str]:
        """What still runs `grace_s` seconds after the command has ended, as command lines; it is killed."""
        deadline = time.monotonic() + grace_s
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.3)
        names = [command_line(p)[:120] for p in left]
        self.kill()
        return names

    def kill(self) -> None:
        """SIGKILL all that is left, as a power cut; raises as `kill_all`."""
        kill_all(self.alive)
        self.child.wait(_KILL_S)


def kill_all(alive: Callable[[], list[psutil.Process]]) -> None:
    """SIGKILL what `alive` returns until that is nothing.

    Raises:
        RuntimeError: something is there still after a minute, as a process that waits for a disk for ever.
    """
    deadline = time.monotonic() + _KILL_S
    while left := alive():
        if time.monotonic() > deadline:
            raise RuntimeError(f"cannot be killed: {[f'{p.pid} {command_line(p)[:120]}' for p in left]}")
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        time.sleep(0.05)


def marked(mark: str) -> list[psutil.Process]:
    """Living processes of any start with this mark, and what they have started."""
    found: dict[int, psutil.Process] = {}
    for root in mine(mark):
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {p.pid: p for p in [root, *root.children(recursive=True)] if runs(p) and p.pid != os.getpid()}
    return list(found.values())


def command_line(process: psutil.Process) -> str:
    """Command line of a process, empty when it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
