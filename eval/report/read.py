"""What a run's folder says, as plain values. A folder of a run that goes on, or was killed, gives what it has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from eval.metrics import bootstrap_interval
from eval.report.config import without_secrets
from eval.report.jsonl import read_jsonl
from eval.report.responses import Response, read_responses
from eval.settings import COMPARABLE, differences
from recipe.metrics_log import Steps, read_steps
from recipe.resolved import flatten
from recipe.stamps import ATTEMPTS, RESOLVED_CONFIG

_FIRST, _LAST = "before", "after"
_ORDER = {"base": 0, _FIRST: 1, _LAST: 3}  # base: the model before a warm start


@dataclass(frozen=True)
class Evaluation:
    """Accuracy of one evaluation with its 95 % interval over problems; `others` holds the rest of its summary."""

    name: str
    mean: float
    low: float
    high: float
    problems: int
    samples: int
    others: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseTime:
    """Seconds of a phase over all attempts, its peak memory in bytes (None: not measured), whether it ended well."""

    name: str
    seconds: float
    peak_bytes: int | None
    done: bool


@dataclass(frozen=True)
class Run:
    """Everything a report shows of a run; what was not found is empty, and `gaps` says so in words."""

    name: str
    folder: Path
    steps: Steps
    config: dict[str, Any]
    commit: str
    evaluations: list[Evaluation]
    gain: tuple[float, float, float] | None
    phases: list[PhaseTime]
    peak_bytes: int
    responses: list[Response]
    plan: str
    state: str
    gaps: list[str]


def read_run(folder: Path) -> Run:
    """Read one run.

    Raises:
        ValueError: the folder holds nothing of a run, or a file in it is damaged beyond its last line.
    """
    if not any((folder / name).exists() for name in ("metrics", RESOLVED_CONFIG, "loop.json", "eval")):
        raise ValueError(
            f"{folder} is no run folder: it has neither metrics/ nor {RESOLVED_CONFIG}; give outputs/<run>"
        )
    steps = read_steps(folder / "metrics")
    config, commit = _read_config(folder)
    loop = _read_json(folder / "loop.json")
    phases = [
        PhaseTime(name, float(entry["seconds"]), entry.get("peak_bytes"), bool(entry["done"]))
        for name, entry in loop.get("phases", {}).items()
    ]
    evaluations = read_evaluations(folder / "eval")
    responses = read_responses(folder)
    unlike = _asked_otherwise(evaluations)
    run = Run(
        name=str(config.get("trainer.experiment_name") or folder.resolve().name),
        folder=folder,
        steps=steps,
        config=config,
        commit=commit,
        evaluations=evaluations,
        gain=None if unlike else _gain(folder / "eval"),
        phases=phases,
        peak_bytes=int(loop.get("peak_bytes", 0)),
        responses=responses,
        plan=_read_plan(folder),
        state=_state(folder, steps, config, phases),
        gaps=[],
    )
    run.gaps.extend([*_gaps(run), *unlike])
    return run


def read_evaluations(folder: Path) -> list[Evaluation]:
    """All `NAME.summary.json` of a folder: `base` and `before` first, `after` last, the others between by time."""
    paths = sorted(folder.glob("*.summary.json"), key=lambda p: p.stat().st_mtime)
    paths.sort(key=lambda p: _ORDER.get(_stem(p), 2))
    found = [(_stem(path), _read_json(path)) for path in paths]
    keys = ("mean", "low", "high", "problems", "samples")
    return [
        Evaluation(name, **{k: values[k] for k in keys}, others={k: v for k, v in values.items() if k not in keys})
        for name, values in found
        if all(k in values for k in keys)
    ]


def _stem(path: Path) -> str:
    return path.name.removesuffix(".summary.json")


def _asked_otherwise(evaluations: Sequence[Evaluation]) -> list[str]:
    """Why the gain from `before` to `after` would mean nothing: they were sampled or graded in different ways."""
    settings = {e.name: e.others.get("settings", {}) for e in evaluations}
    found = differences(settings.get(_FIRST, {}), settings[_LAST], COMPARABLE) if _LAST in settings else []
    return [f"{_FIRST} and {_LAST} cannot be compared: {'; '.join(found)}"] if found and _FIRST in settings else []


def _gain(folder: Path) -> tuple[float, float, float] | None:
    """Mean gain of accuracy from `before` to `after` and its interval, each problem compared with itself."""
    before, after = (_problem_means(folder / f"{name}.jsonl") for name in (_FIRST, _LAST))
    if not before or before.keys() != after.keys():
        return None
    gains = [after[problem] - before[problem] for problem in sorted(before)]
    return math.fsum(gains) / len(gains), *bootstrap_interval(gains)


def _problem_means(path: Path) -> dict[int, float]:
    verdicts: dict[int, list[float]] = {}
    for row in read_jsonl(path):
        if "problem" in row and "correct" in row:
            verdicts.setdefault(row["problem"], []).append(float(row["correct"]))
    return {problem: math.fsum(v) / len(v) for problem, v in verdicts.items()}


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}); move it away to report without it") from error


def _read_config(folder: Path) -> tuple[dict[str, Any], str]:
    path = folder / RESOLVED_CONFIG
    if not path.is_file():
        return {}, "unknown"
    text = path.read_text()
    first = text.splitlines()[0] if text else ""
    commit = re.sub(r"^([0-9a-f]{12})[0-9a-f]+", r"\1", first.removeprefix("# commit ").strip())
    commit = commit if first.startswith("# commit ") else "unknown"
    try:
        return without_secrets(flatten(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {})), commit
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is damaged ({error}); move it away to report without it") from error


def _read_plan(folder: Path) -> str:
    """The plan of the latest attempt that has one."""
    plans = sorted(folder.glob(f"{ATTEMPTS}/*/plan.txt"))
    return plans[-1].read_text(errors="replace").strip() if plans else ""


def _state(folder: Path, steps: Steps, config: dict[str, Any], phases: list[PhaseTime]) -> str:
    """In words: finished, or how far it came and when it last wrote; whether it still goes on cannot be told."""
    last, total = max(steps, default=0), config.get("trainer.total_training_steps")
    if total is not None and last >= total:
        return f"trained {last} of {total} steps"
    files = list((folder / "metrics").glob("*.jsonl"))
    if not files:
        return "no step logged yet"
    written = datetime.fromtimestamp(max(p.stat().st_mtime for p in files), timezone.utc)
    return f"{last} of {total or '?'} steps, going on or stopped; last wrote {written:%Y-%m-%d %H:%M} UTC"


def _gaps(run: Run) -> list[str]:
    wanted = {
        "no metrics yet": not run.steps,
        f"no {RESOLVED_CONFIG}": not run.config,
        "no evaluation": not run.evaluations,
        "evaluated only before or only after": len(run.evaluations) == 1,
        "no responses kept": not run.responses,
    }
    return [text for text, missing in wanted.items() if missing]
