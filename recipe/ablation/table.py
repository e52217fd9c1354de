"""The table of an ablation: mean over seeds with its interval, step from the rung below, the paper beside it. Pure.

The seed is the unit: each gives one accuracy (over problems and samples), and intervals are Student's t over seeds,
95 %. The step from the rung below is taken seed by seed, on the same base model and the same problems.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recipe.ablation.ladder import PAPER

# 97.5 % points of Student's t by degrees of freedom (Abramowitz and Stegun, table 26.10)
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_MORE = 2.12  # 16 degrees of freedom: a little wide for more

Accuracies = Mapping[str, Mapping[int, float]]
"""Accuracy after training, 0 to 1, by technique and seed."""


@dataclass(frozen=True)
class Estimate:
    """Mean over `seeds` seeds with its 95 % interval; no interval for one seed."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    def __str__(self) -> str:
        """`0.912 [0.880, 0.944]`."""
        return f"{self.mean:.3f}" + ("" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]")


@dataclass(frozen=True)
class Row:
    """One rung; `step` is the gain over the rung below on the seeds that both have (None: no such seed)."""

    technique: str
    accuracy: Estimate
    step: Estimate | None
    paper: int
    paper_step: int | None

    @property
    def direction(self) -> str:
        """Whether the step goes the paper's way (there: up), as far as the interval tells."""
        if self.step is None:
            return ""
        if self.step.low is None or self.step.high is None:
            return "up, one seed" if self.step.mean > 0 else "not up, one seed"
        if self.step.low > 0:
            return "as in the paper"
        return "the other way" if self.step.high < 0 else "cannot be told"


def t_point(count: int) -> float:
    """The 97.5 % point of Student's t for `count` values, at least two."""
    return _T[count - 2] if count - 2 < len(_T) else _T_MORE


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % t interval of independent values, at least one."""
    mean, count = statistics.fmean(values), len(values)
    if count == 1:
        return Estimate(mean, None, None, 1)
    half = t_point(count) * statistics.stdev(values) / math.sqrt(count)
    return Estimate(mean, mean - half, mean + half, count)


def rows(accuracies: Accuracies) -> list[Row]:
    """The rungs that have a result, in the ladder's order."""
    found = []
    names = [name for name in PAPER if accuracies.get(name)]
    for name in names:
        place = list(PAPER).index(name)
        below = list(PAPER)[place - 1] if place else None
        shared = sorted(set(accuracies[name]) & set(accuracies.get(below, {}))) if below is not None else []
        steps = [accuracies[name][seed] - accuracies[below][seed] for seed in shared] if below is not None else []
        found.append(
            Row(
                name,
                estimate([accuracies[name][seed] for seed in sorted(accuracies[name])]),
                estimate(steps) if steps else None,
                PAPER[name],
                None if below is None else PAPER[name] - PAPER[below],
            )
        )
    return found


def markdown(found: Sequence[Row], caption: str) -> str:
    """The table for a README, with one line on what was run."""
    head = ("technique", "seeds", "accuracy after", "step from the rung below", "paper: AIME 2024 avg@32", "its step")
    lines = [caption, "", f"| {' | '.join(head)} | direction |", "|---|---|---|---|---|---|---|"]
    for row in found:
        step = "" if row.step is None else signed(row.step)
        paper_step = "" if row.paper_step is None else f"{row.paper_step:+d}"
        cells = (row.technique, row.accuracy.seeds, row.accuracy, step, row.paper, paper_step, row.direction)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def signed(value: Estimate) -> str:
    """`+0.012 [-0.020, +0.044]`."""
    return f"{value.mean:+.3f}" + ("" if value.low is None else f" [{value.low:+.3f}, {value.high:+.3f}]")
