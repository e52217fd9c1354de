"""Is a series flat once it has warmed up? Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Series = Mapping[str, Mapping[str, Sequence[float]]]
"""A value a sample by quantity, by process (or `all` of them together)."""

WARM_UP = 0.2
"""Share of the samples that is left out."""
LEAST = 30
"""Samples that a process must have to be judged; those of `all` have them when the run has."""
ALLOWED = {"memory_mb": 8.0, "shared_mb": 30.0, "files": 1.5, "threads": 1.5, "segments": 1.5, "processes": 1.5}
"""By quantity, growth over the samples after warm-up that is taken as noise; more is, where the values scatter more."""
_SCATTER = 3.0


def growth(values: Sequence[float]) -> tuple[float, float, float]:
    """Level after warm-up, growth from there to the end, and scatter, in the unit of the values.

    Growth is the median slope between any two samples (Theil and Sen) times their number; the smallest of the whole and
    its two halves counts, since what leaks does so in both. A leak of a little a step shows, while noise, the teeth of
    a garbage collector and a single jump do not. Scatter is the median distance from that line.
    """
    warm = np.asarray(values[int(WARM_UP * len(values)) :], dtype=float)
    half = len(warm) // 2
    slope = min(_slope(warm), _slope(warm[:half]), _slope(warm[half:]))
    rest = warm - slope * np.arange(len(warm))
    level = float(np.median(rest))
    return level, slope * (len(warm) - 1), float(np.median(np.abs(rest - level)))


def _slope(values: np.ndarray) -> float:
    i, j = np.triu_indices(len(values), k=1)
    return float(np.median((values[j] - values[i]) / (j - i))) if len(values) > 1 else 0.0


def problems(series: Series) -> list[str]:
    """Name what grows; that nothing had enough samples to be judged is a problem too."""
    found, judged = [], False
    for name, quantities in series.items():
        for quantity, values in quantities.items():
            if len(values) < LEAST:
                continue
            judged = True
            level, more, scatter = growth(values)
            if more > max(ALLOWED[quantity], _SCATTER * scatter):
                found.append(f"{quantity} of {name} grew from {level:.0f} to {level + more:.0f}")
    return found if judged else ["no process was seen often enough to be judged: let it run longer"]


def table(series: Series) -> list[dict[str, Any]]:
    """Level and growth of every quantity of every process."""
    rows = []
    for name, quantities in sorted(series.items()):
        row: dict[str, Any] = {"process": name}
        for quantity, values in quantities.items():
            level, more, _ = growth(values)
            row[quantity] = [round(level, 1), round(more, 1)]
        rows.append(row | {"samples": max(len(values) for values in quantities.values())})
    return rows
