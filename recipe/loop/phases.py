"""Which commands make up a run, in order, and the record of those that are done."""

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipe.provenance import write_text_atomic

# Threads that wait must not spin: beside any other work, an update of a small model would take thirty times as long.
QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True)
class Phase:
    """One command: `output` exists once it is done, `hint` tells a person what to expect."""

    name: str
    command: list[str]
    output: Path
    hint: str
    environment: dict[str, str] = field(default_factory=dict)


def phases(config: DictConfig, overrides: list[str]) -> list[Phase]:
    """The phases of a run, in order; those around a warm start only where the recipe has one.

    data, base_model, evaluate_base, warm_start, evaluate_before, train, export, evaluate_after, report.
    """
    run_dir = Path(config.run_dir)
    loop: Any = OmegaConf.to_container(config.loop, resolve=True)
    model = Path(config.actor_rollout_ref.model.path)
    steps = config.trainer.total_training_steps
    checkpoint = Path(config.trainer.default_local_dir) / f"global_step_{steps}"
    exported = run_dir / "model"

    def python(*arguments: object) -> list[str]:
        return [sys.executable, "-m", *(str(a) for a in arguments)]

    def evaluate(folder: Path, name: str) -> list[str]:
        return python(*evaluation_words(config, folder, name), *_flags(loop["evaluation"]))

    train = python("recipe.main_dapo", *overrides, f"run_dir={quoted(str(run_dir))}")
    made = []
    start = model if loop["warm_start"] is None else Path(loop["pretrained"])
    if loop["base_model"] is not None:
        build = Phase("base_model", python(*loop["base_model"]), start / "config.json", "building the model", QUIET)
        made.append(build)
    if loop["warm_start"] is not None:
        made += [
            Phase("evaluate_base", evaluate(start, "base"), run_dir / "eval/base.summary.json", "as it comes"),
            Phase("warm_start", python(*loop["warm_start"]), model / "config.json", "supervised, on problems", QUIET),
        ]
    return [
        Phase("data", python(*loop["data"]), Path(config.data.train_files), "preparing problems"),
        *made,
        Phase(
            "evaluate_before",
            evaluate(model, "before"),
            run_dir / "eval/before.summary.json",
            "sampling the base model",
        ),
        Phase("train", train, checkpoint / "data.pt", f"{steps} steps; Ray, FSDP2 and vLLM start first"),
        Phase(
            "export",
            python("recipe.export", "--checkpoint", checkpoint, "--out", exported),
            exported / "config.json",
            "to a Hugging Face folder",
        ),
        Phase(
            "evaluate_after",
            evaluate(exported, "after"),
            run_dir / "eval/after.summary.json",
            "sampling the trained model",
        ),
        Phase("report", python("eval.report", run_dir, "--out", run_dir / "report"), report_page(run_dir), "drawing"),
    ]


def evaluation_words(config: DictConfig, model: Path, name: str) -> list[str]:
    """Arguments of `python -m` that serve a model and evaluate it on the held-out data, into `eval/{name}.jsonl`."""
    run_dir = Path(config.run_dir)
    flags = {
        "server_log": run_dir / "logs" / f"server_{name}.log",
        "test_file": config.data.val_files,
        "out": run_dir / "eval" / f"{name}.jsonl",
        "max_tokens": config.data.max_response_length,
        "answer_format": config.answer_format,
        "mode": config.reward.reward_kwargs.mode,
    }
    if template := config.data.get("apply_chat_template_kwargs"):
        flags["chat_template_kwargs"] = json.dumps(OmegaConf.to_container(template, resolve=True))
    length = config.actor_rollout_ref.rollout.max_model_len
    server = [] if length is None else [f"max-model-len={length}"]
    return ["eval.served", str(model), *server, "--replace", *_flags(flags)]


def _flags(values: dict[str, Any]) -> list[str]:
    return [word for key, value in values.items() for word in (f"--{key}", str(value))]


def report_page(run_dir: Path) -> Path:
    """The page that the last phase writes."""
    return run_dir / "report" / "index.html"


def quoted(text: str) -> str:
    """A Hydra override's value that stands for `text`; its grammar escapes a backslash only before a quote."""
    doubled = re.sub(r"(\\+)('|$)", r"\1\1\2", text)
    return "'" + doubled.replace("'", "\\'") + "'"


class Record:
    """`loop.json` of a run: which command of which phase is done, and what it took over all attempts."""

    def __init__(self, path: Path):
        self._path = path
        self.data: dict[str, Any] = {"phases": {}, "peak_bytes": 0}
        if path.is_file():
            try:
                self.data |= json.loads(path.read_text())
            except (json.JSONDecodeError, TypeError) as error:
                raise ValueError(f"{path} is damaged ({error}); delete it to run every phase again") from error

    def todo(self, phases: list[Phase]) -> list[Phase]:
        """The phases from the first that is not done on: what comes after it reads what it writes."""
        first = next((i for i, phase in enumerate(phases) if not self.done(phase)), len(phases))
        return phases[first:]

    def done(self, phase: Phase) -> bool:
        """Whether this very command ended well and its output is still there."""
        entry = self._entry(phase)
        return entry["done"] and entry["command"] == phase.command and phase.output.exists()

    def seconds(self, phase: Phase) -> float:
        """Seconds spent on the phase, all attempts together."""
        return self._entry(phase)["seconds"]

    def add(self, phase: Phase, seconds: float, peak_bytes: int = 0) -> None:
        """Count an attempt, finished or not; `peak_bytes` is the most memory that all processes had during it."""
        entry = self._entry(phase)
        self.data["phases"][phase.name] = {
            "command": phase.command,
            "seconds": entry["seconds"] + seconds,
            "peak_bytes": max(entry.get("peak_bytes", 0), peak_bytes),
            "done": False,
        }
        self.data["peak_bytes"] = max(self.data["peak_bytes"], peak_bytes)
        self._save()

    def finish(self, phase: Phase) -> None:
        """Mark the phase as done.

        Raises:
            ValueError: the command ended well but its output is not there.
        """
        if not phase.output.exists():
            raise ValueError(f"phase {phase.name} ended well but did not write {phase.output}")
        self.data["phases"][phase.name]["done"] = True
        self._save()

    def _entry(self, phase: Phase) -> dict[str, Any]:
        return self.data["phases"].get(phase.name, {"command": None, "seconds": 0.0, "done": False})

    def _save(self) -> None:
        write_text_atomic(self._path, json.dumps(self.data, indent=1) + "\n")
