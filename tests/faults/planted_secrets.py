"""Is a secret of the environment in anything that a run writes, or in what Ray knows of the job?"""

import base64
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.conftest import run_module
from tests.faults.plan import TRAIN
from tests.faults.processes import Start, command_line
from tests.faults.scratch import Scratch, shipped_words

NAMES = ("WANDB_API_KEY", "HF_TOKEN", "VLLM_API_KEY")
_SECONDS = 300


def run(folder: Path) -> dict[str, Any]:
    """Train one step with planted secrets and every tracker that is shipped, draw the report, and search."""
    planted = {name: secrets.token_hex(20) for name in NAMES}  # as long as a key of wandb
    with Scratch(folder, "secrets") as scratch:
        words = [*shipped_words(scratch), "trainer.total_training_steps=1", "trainer.save_freq=1"]
        words += ["trainer.logger=[console,file,wandb,tensorboard]"]
        environment = scratch.environment | planted | {"WANDB_MODE": "offline"}
        start = Start(TRAIN, words, scratch.log, environment)
        job = ""
        try:
            start.wait(_SECONDS, lambda: (scratch.run_dir / "sampling" / "1.jsonl").is_file())
            job = job_metadata(start)
            lines = [command_line(process) for process in start.alive()]
            start.wait(_SECONDS)
        finally:
            start.kill()
        report = run_module("eval.report", scratch.run_dir, "--out", scratch.run_dir / "report", check=False)
        places = [scratch.run_dir, scratch.temporary, scratch.log]
        searched, found = search(places, planted)
        found += [f"{name} in {what}" for what, text in (("the job", job), ("a command line", str(lines)))
                  for name, value in planted.items() if value in text]  # fmt: skip
        problems = found + ([] if start.child.poll() == 0 else [f"ended with {start.child.poll()}; see {scratch.log}"])
        problems += [] if report.returncode == 0 else [f"the report ended with {report.returncode}"]
        problems += [] if job else ["Ray's job metadata could not be read"]
    return {"files_searched": searched, "job_metadata_characters": len(job), "problems": problems}


def search(places: list[Path], planted: Mapping[str, str]) -> tuple[int, list[str]]:
    """Number of files below `places`, and each that holds a secret, plain or in base64."""
    wanted = {name: (value.encode(), base64.b64encode(value.encode())) for name, value in planted.items()}
    count, found = 0, []
    for path in _files(places):
        content = path.read_bytes()
        count += 1
        found += [f"{name} in {path}" for name, forms in wanted.items() if any(form in content for form in forms)]
    return count, found


def _files(places: list[Path]) -> Iterator[Path]:
    for place in places:
        for path in [place] if place.is_file() else place.rglob("*"):
            if path.is_file() and not path.is_symlink():
                yield path


def job_metadata(start: Start) -> str:
    """All that Ray's head process knows of the jobs of a running start, runtime environments included, as text."""
    from ray._raylet import GcsClient

    for process in start.alive():
        if address := re.search(r"--gcs-address=(\S+)", command_line(process)):
            jobs = GcsClient(address=address[1]).get_all_job_info()
            return "\n".join(f"{key!r}: {value}" for key, value in jobs.items())
    return ""
