"""Does a series grow once it has warmed up? Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Series = Mapping[str, Mapping[str, Sequence[float]]]
"""By process (or `all`), by quantity, a value a sample."""

WARM_UP = 1 / 3
"""Share of the samples that is left out."""
LEAST = 30
"""Samples below which a series is not judged."""
MB, COUNT = 8.0, 1.0
"""Least growth over the warm part that counts, in MB (quantities named `*_mb`) or in files, threads and the like."""
_ERRORS = 3.0


def warm(values: Sequence[float]) -> np.ndarray:
    """What is left of a series after the warm-up."""
    return np.asarray(values[int(WARM_UP * len(values)) :], dtype=float)


def slope(values: np.ndarray) -> float:
    """Theil and Sen's slope a sample: the median over all pairs, so that outliers and one jump count little."""
    first, second = np.triu_indices(len(values), 1)
    return float(np.median((values[second] - values[first]) / (second - first))) if len(values) > 1 else 0.0


def growth(values: Sequence[float]) -> tuple[float, float]:
    """Level (median) of the warm part and growth over it, along its slope."""
    after = warm(values)
    return float(np.median(after)), slope(after) * (len(after) - 1)


def noise(values: np.ndarray) -> float:
    """Standard error of the growth over `values`, from what is left of them without their slope.

    A line through n independent values of deviation s has an error of s * sqrt(12 / n) over its length. Values that
    follow the last ones, as the memory of a garbage collector does, are worth fewer: n * (1 - r) / (1 + r) of them with
    an autocorrelation r.
    """
    rest = values - slope(values) * np.arange(len(values))
    rest -= np.median(rest)
    deviation = 1.4826 * float(np.median(np.abs(rest)))  # of a normal distribution
    square = float(np.mean(rest**2))
    r = max(0.0, float(np.mean(rest[1:] * rest[:-1])) / square) if square > 0 else 0.0
    independent = max(2.0, len(values) * (1 - r) / (1 + r))
    return deviation * float(np.sqrt(12 / independent))


def grows(quantity: str, values: Sequence[float]) -> bool:
    """Is the growth over the warm part more than its noise and than the least that counts?

    Memory must also grow as fast in the second half of the warm part, which it does not after one jump of an allocator.
    Counts need not: one that goes up by one now and then may do so once in that half.
    """
    after = warm(values)
    more, least = slope(after), COUNT
    if quantity.endswith("_mb"):
        more, least = min(more, slope(after[len(after) // 2 :])), MB
    return more * (len(after) - 1) >= max(least, _ERRORS * noise(after))


def problems(series: Series, least: int = LEAST) -> list[str]:
    """Name what grows, or say that no series has `least` samples; shorter ones are left out."""
    judged = [
        (name, quantity, values)
        for name, quantities in series.items()
        for quantity, values in quantities.items()
        if len(values) >= least
    ]
    if not judged:
        most = max((len(values) for quantities in series.values() for values in quantities.values()), default=0)
        return [f"too few samples to judge: {most}, at least {least} are needed; train more steps"]
    found = []
    for name, quantity, values in judged:
        if grows(quantity, values):
            level, more = growth(values)
            found.append(f"{quantity} of {name} grew by {more:.0f} at a level of {level:.0f}")
    return found


def table(series: Series) -> list[dict[str, Any]]:
    """Level and growth of every quantity of every process."""
    rows = []
    for name, quantities in sorted(series.items()):
        row: dict[str, Any] = {"process": name}
        for quantity, values in quantities.items():
            level, more = growth(values)
            row[quantity] = [round(level, 1), round(more, 1)]
        rows.append(row | {"samples": max(len(values) for values in quantities.values())})
    return rows
