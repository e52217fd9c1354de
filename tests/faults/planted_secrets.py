"""Is a secret of the environment in anything that a run writes, or in what Ray knows of its jobs?"""

import base64
import contextlib
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.faults.plan import LOOP
from tests.faults.processes import Start, command_line
from tests.faults.recipe import words
from tests.faults.scratch import Scratch

NAMES = ("WANDB_API_KEY", "HF_TOKEN", "VLLM_API_KEY")
_SECONDS, _LOOK_S = 1200, 5.0


def run(folder: Path) -> dict[str, Any]:
    """Run the loop of one step, served evaluations included, with planted secrets and every tracker; search it all."""
    planted = {name: secrets.token_hex(20) for name in NAMES}  # as long as a key of wandb
    with Scratch(folder, "secrets") as scratch:
        environment = scratch.environment | planted | {"WANDB_MODE": "offline"}
        start = Start(LOOP, loop_words(scratch), scratch.log, environment)
        looks = _Looks(start, scratch.temporary, planted)
        try:
            start.wait(_SECONDS, looks)
        finally:
            start.kill()
        searched, found = search([scratch.run_dir, scratch.temporary, scratch.log], planted)
    jobs = "\n".join(looks.jobs.values())
    found += sorted(looks.found - set(found))
    found += [f"{name} in {what}" for what, text in (("a job", jobs), ("a command line", "\n".join(looks.lines)))
              for name, value in planted.items() if value in text]  # fmt: skip
    problems = found + ([] if start.child.poll() == 0 else [f"ended with {start.child.poll()}; see {scratch.log}"])
    problems += [] if jobs else ["Ray's job metadata could not be read"]
    return {
        "files_searched": searched,
        "command_lines": len(looks.lines),
        "job_metadata_characters": len(jobs),
        "problems": problems,
    }


def loop_words(scratch: Scratch) -> list[str]:
    """Overrides of `recipe.loop`: one step on a base model that is there, and what there is to write with."""
    return [
        *words(scratch.run_dir, 1),
        "loop.base_model=null",
        f"actor_rollout_ref.model.path={scratch.base}/base_model",
        "trainer.logger=[console,file,wandb,tensorboard]",
    ]


class _Looks:
    """Called while a start runs, for what is gone later: command lines, jobs, and secrets in temporary files."""

    def __init__(self, start: Start, temporary: Path, planted: Mapping[str, str]):
        self._start, self._temporary, self._planted = start, temporary, planted
        self._next = time.monotonic()
        self.lines: set[str] = set()
        self.jobs: dict[str, str] = {}
        self.found: set[str] = set()

    def __call__(self) -> bool:
        if time.monotonic() >= self._next:
            lines = {command_line(process) for process in self._start.alive()}
            self.lines |= lines
            self.jobs |= job_metadata(lines, {address for address, jobs in self.jobs.items() if jobs})
            self.found |= set(search([self._temporary], self._planted)[1])
            self._next = time.monotonic() + _LOOK_S
        return False


def search(places: list[Path], planted: Mapping[str, str]) -> tuple[int, list[str]]:
    """Number of files below `places`, and each that holds a secret, plain or in base64."""
    wanted = {name: (value.encode(), base64.b64encode(value.encode())) for name, value in planted.items()}
    count, found = 0, []
    for path in _files(places):
        try:
            content = path.read_bytes()
        except OSError:  # gone meanwhile
            continue
        count += 1
        found += [f"{name} in {path}" for name, forms in wanted.items() if any(form in content for form in forms)]
    return count, found


def _files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        for path in [place] if place.is_file() else place.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path


_JOBS = """
import sys
from ray._raylet import GcsClient
for key, value in GcsClient(address=sys.argv[1]).get_all_job_info().items():
    print(repr(key), value)
"""


def job_metadata(lines: set[str], known: set[str]) -> dict[str, str]:
    """By address, what the Ray clusters that these command lines name know of their jobs, as text.

    Runtime environments are in it. The `known` addresses are left out; empty where nothing answers. In a process of its
    own, since Ray's client ends the one that it is in when its cluster has gone.
    """
    found = {}
    for address in {match[1] for line in lines if (match := re.search(r"--gcs-address=(\S+)", line))} - known:
        found[address] = ""
        with contextlib.suppress(subprocess.SubprocessError):  # the cluster has not started yet, or has just ended
            command = [sys.executable, "-c", _JOBS, address]
            found[address] = subprocess.run(command, capture_output=True, check=True, text=True, timeout=15).stdout
    return found
