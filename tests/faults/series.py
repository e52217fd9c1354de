"""Is a series flat once it has warmed up? Pure."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

WARM_UP = 0.2
"""Share of the samples that is left out."""
ALLOWED = {"memory_mb": (0.05, 20.0), "files": (0.0, 3.0), "segments": (0.0, 2.0), "threads": (0.0, 3.0)}
"""By quantity, growth that is taken as noise: the larger of a share of the level and an absolute amount."""


def growth(values: Sequence[float]) -> tuple[float, float]:
    """Level (median of the first third after warm-up) and growth from it to the median of the last third."""
    warm = list(values)[int(WARM_UP * len(values)) :]
    third = max(1, len(warm) // 3)
    level = median(warm[:third])
    return level, median(warm[-third:]) - level


def problems(series: Mapping[str, Mapping[str, Sequence[float]]], least: int = 30) -> list[str]:
    """Name what grows. `series`: by process (or `all`), by quantity, a value a sample; short ones are left out."""
    found = []
    for name, quantities in series.items():
        for quantity, values in quantities.items():
            if len(values) < least:
                continue
            level, more = growth(values)
            share, amount = ALLOWED[quantity]
            if more > max(share * level, amount):
                found.append(f"{quantity} of {name} grew from {level:.0f} to {level + more:.0f}")
    return found


def table(series: Mapping[str, Mapping[str, Sequence[float]]]) -> list[dict[str, Any]]:
    """Level and growth of every quantity of every process."""
    rows = []
    for name, quantities in sorted(series.items()):
        row: dict[str, Any] = {"process": name}
        for quantity, values in quantities.items():
            level, more = growth(values)
            row[quantity] = [round(level, 1), round(more, 1)]
        rows.append(row | {"samples": max(len(values) for values in quantities.values())})
    return rows
