"""The logged series that the health rules judge by. Pure; no torch, no verl."""

from __future__ import annotations

import math
import numbers
import statistics
from collections.abc import Mapping
from typing import Any

from recipe.metrics_log import validation_accuracy

ENTROPY = "actor/entropy"
GRAD_NORM = "actor/grad_norm"
TRUNCATED = "sampling/truncated_share/before_filter"
KEPT_SHARE = "sampling/kept_share"
PROBS_DIFF = "training/rollout_probs_diff_mean"
LENGTH = "sampling/response_length/before_filter"
REWARD = "sampling/reward/before_filter"
ACCURACY = "sampling/acc/before_filter"
HELD_OUT = "held-out accuracy"
WATCHED = (ENTROPY, GRAD_NORM, TRUNCATED, KEPT_SHARE, PROBS_DIFF, LENGTH, REWARD, ACCURACY)


class Series:
    """Values of the watched metrics up to now, in step order; steps without a value are left out."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[int, float]]] = {key: [] for key in (*WATCHED, HELD_OUT)}
        self.step = 0

    def add(self, step: int, data: Mapping[str, Any]) -> None:
        """Append the metrics of one step; a run that resumed repeats steps, and what it logged of them before goes."""
        self.step = step
        for values in self._values.values():
            while values and values[-1][0] > step:
                values.pop()
        for key in WATCHED:
            value = data.get(key)
            if isinstance(value, numbers.Real) and (key == GRAD_NORM or math.isfinite(value)):
                self._put(key, step, float(value))
        if (accuracy := validation_accuracy(data)) is not None:
            self._put(HELD_OUT, step, accuracy)

    def _put(self, key: str, step: int, value: float) -> None:
        values = self._values[key]
        if values and values[-1][0] == step:
            values.pop()
        values.append((step, value))

    def values(self, key: str) -> list[float]:
        """All values of a metric."""
        return [value for _, value in self._values[key]]

    def between(self, key: str, after: int, to: int) -> list[float]:
        """Values of the steps after `after` up to `to`."""
        return [value for step, value in self._values[key] if after < step <= to]


def window_mean(series: Series, key: str, window: int) -> float | None:
    """Mean of the last `window` values; None while there are fewer."""
    values = series.values(key)
    return statistics.fmean(values[-window:]) if len(values) >= window else None


def gain(series: Series, key: str, window: int, sparse: bool = False) -> float | None:
    """Mean of the last `window` steps minus that of the window before; None while a window is not full.

    `sparse`: one value in each window is enough.
    """
    now = series.step
    old, new = series.between(key, now - 2 * window, now - window), series.between(key, now - window, now)
    if min(len(old), len(new)) < (1 if sparse else window):
        return None
    return statistics.fmean(new) - statistics.fmean(old)
