"""One start of a command: its output, every process that it has had, and the one that a fault is for."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.e2e.conftest import ROOT, mine

VICTIMS = {
    "kill_driver": r"-m recipe\.main_dapo",
    "kill_trainer": r"^ray::WorkerDict",
    "kill_engine": r"^VLLM::EngineCore",
    "kill_raylet": r"/raylet/raylet ",
    "kill_reward": r"^ray::RewardLoopWorker",
}
"""By fault, what the command line of the process says that is killed."""


class Start:
    """A running command with its output in a file. `look` often: a process that nobody has seen cannot be missed."""

    def __init__(self, module: str, words: Sequence[str], log: Path, environment: Mapping[str, str]):
        self.began, self.log, self._mark = time.time(), log, f"start-{uuid.uuid4().hex}"
        self._seen: dict[tuple[int, float], psutil.Process] = {}
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

    def look(self) -> None:
        """Remember every descendant that is alive now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.child.pid)
            for process in [root, *root.children(recursive=True)]:
                self._seen[process.pid, process.create_time()] = process

    def alive(self) -> list[psutil.Process]:
        """Processes of this start that run still, the command itself among them; zombies left out."""
        self.look()
        found = {p.pid: p for p in [*self._seen.values(), *mine(self._mark)] if p.pid != os.getpid()}
        return [p for p in found.values() if _runs(p)]

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
        """SIGKILL all that is left, as a power cut."""
        while left := self.alive():
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)
            self.child.poll()
            time.sleep(0.05)
        self.child.wait()


def command_line(process: psutil.Process) -> str:
    """Command line of a process, empty when it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
