"""What a person sees while a phase runs: a spinner with the time, and one line a training step."""

import json
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.status import Status

from recipe.health import HealthSettings, Monitor
from recipe.metrics_log import read_steps, validation_accuracy


def step_line(step: int, total: int, data: dict[str, Any]) -> str:
    """One line on a training step, from the metrics that verl logged for it."""
    parts = [f"step {step:>3}/{total}"]
    if (seconds := data.get("timing_s/step")) is not None:
        parts.append(f"{seconds:5.1f} s")
    if (accuracy := data.get("sampling/acc/before_filter")) is not None:
        parts.append(f"accuracy {accuracy:.2f}")
    if (generated := data.get("sampling/generated_groups")) is not None:
        parts.append(f"kept {data['sampling/kept_groups']:.0f} of {generated:.0f} groups")
    if (entropy := data.get("actor/entropy")) is not None:
        parts.append(f"entropy {entropy:.2f}")
    validation = validation_accuracy(data)
    if validation is not None:
        parts.append(f"held-out {validation:.3f}")
    return "  ".join(parts)


class MetricsFollower:
    """Reads what was appended to the metrics files of a run since the last look."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._offsets = {path: path.stat().st_size for path in folder.glob("*.jsonl")} if folder.is_dir() else {}

    def poll(self) -> list[dict[str, Any]]:
        """New complete lines, in order, as dicts with `step` and `data`."""
        found = []
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as f:
                f.seek(self._offsets.get(path, 0))
                chunk = f.read()
            end = chunk.rfind(b"\n") + 1
            self._offsets[path] = self._offsets.get(path, 0) + end
            found += [json.loads(line) for line in chunk[:end].splitlines()]
        return found


# What the libraries say on their way up, and what it means to a person.
MILESTONES = {
    b"Started a local Ray instance": "Ray is up",
    b"actor and ref model engine initialized": "the trainer is up (FSDP2)",
    b"checkpoint engine manager initialized": "the rollout engine is up (vLLM)",
    b"setting global step to": "resuming from a checkpoint",
    b"all initialize finished": "training starts",
}


class LogFollower:
    """Finds milestones in what is appended to a log."""

    def __init__(self, log: Path):
        self._log = log
        self._offset = log.stat().st_size if log.is_file() else 0
        self._left = dict(MILESTONES)

    def poll(self) -> list[str]:
        """Milestones reached since the last look, each once."""
        if not self._left or not self._log.is_file():
            return []
        with self._log.open("rb") as f:
            f.seek(self._offset)
            chunk = f.read()
        self._offset += chunk.rfind(b"\n") + 1
        found = [text for text in self._left if text in chunk]
        return [self._left.pop(text) for text in found]


class Display:
    """Prints phases and steps; on a terminal also a spinner with the time that the phase has taken."""

    def __init__(self, console: Console, config: DictConfig, metrics: Path):
        self._console, self._total = console, config.trainer.total_training_steps
        self._follower = MetricsFollower(metrics)
        self._health = Monitor(HealthSettings.from_mapping(config.health))
        for step, data in read_steps(metrics).items():
            self._health.news(step, data)
        self._status: Status | None = None
        self._started = 0.0
        self._label = ""

    def start(self, label: str, hint: str, log: Path) -> None:
        """Announce a phase whose output goes to `log`."""
        self._label, self._started = label, time.monotonic()
        self._console.print(f"[bold]{label}[/bold]  {hint} (log: {log})", highlight=False)
        self._milestones = LogFollower(log)
        self._status = self._console.status(label)
        self._status.start()

    def tick(self) -> None:
        """Refresh the spinner and print milestones and new steps."""
        for milestone in self._milestones.poll():
            self._console.print(f"  {time.monotonic() - self._started:4.0f} s  {milestone}", highlight=False)
        for line in self._follower.poll():
            self._console.print("  " + step_line(line["step"], self._total, line["data"]), highlight=False)
            _, new = self._health.news(line["step"], line["data"])
            for finding in new:
                self._console.print(f"  [yellow]warning[/yellow]  {escape(str(finding))}", highlight=False)
        if self._status is not None:
            self._status.update(f"{self._label}  {time.monotonic() - self._started:.0f} s")

    def end(self) -> None:
        """Stop the spinner."""
        if self._status is not None:
            self._status.stop()
