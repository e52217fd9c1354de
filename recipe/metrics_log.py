"""Reads what verl's `file` logger wrote: one JSONL file an attempt, one line `{"step", "data"}` a step. Pure."""

import json
import math
import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Steps = dict[int, dict[str, float]]
"""Metrics by training step, in order; step 0 is the validation before training."""


def read_steps(folder: Path) -> Steps:
    """All steps of a run over all its attempts, numbers only.

    A resumed attempt repeats the steps after its checkpoint: the later attempt wins. A last line that is not complete
    (the run is writing it, or was killed over it) is left out; so is a value that is no finite number.

    Raises:
        ValueError: a line before a file's last is no log entry.
    """
    found: Steps = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text(errors="replace").splitlines()
        entries = [_entry(path, i, line, last=i == len(lines)) for i, line in enumerate(lines, start=1)]
        attempt = {step: data for entry in entries if entry is not None for step, data in [entry]}
        if attempt:
            first = min(attempt)
            attempt[first] = found.get(first, {}) | attempt[first]  # a resumed run begins by validating that step
            found = {step: data for step, data in found.items() if step < first} | attempt
    return dict(sorted(found.items()))


def _entry(path: Path, number: int, line: str, last: bool) -> tuple[int, dict[str, float]] | None:
    try:
        entry = json.loads(line)
        return int(entry["step"]), finite(entry["data"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if last:
            return None
        raise ValueError(f"{path}:{number} is no line of verl's file logger ({error}); delete that line") from error


def finite(data: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a step's metrics as floats."""
    values = {k: float(v) for k, v in data.items() if isinstance(v, numbers.Real) and not isinstance(v, bool)}
    return {k: v for k, v in values.items() if math.isfinite(v)}


def validation_accuracy(data: Mapping[str, float]) -> float | None:
    """Mean accuracy of verl's validation in one step over its data sources, or None when there was none."""
    values = [v for k, v in data.items() if k.startswith("val-core/") and "/acc/mean@" in k]
    return sum(values) / len(values) if values else None
