"""Which figures a report has: the runs' series, handed to `figures` in the order of the page."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from eval.report import curves
from eval.report.figures import Drawing, Plotted, intervals, lines, stacked
from eval.report.read import Run
from recipe.metrics_log import Steps

_MOST_STACKED = 4  # runs that get a figure of their own for groups and for times
_LONGEST_NAME = 34


def styles(runs: Sequence[Run]) -> list[int]:
    """A number for the look of each run: runs that differ in their seed only look the same."""
    families = [family(run.name) for run in runs]
    return [list(dict.fromkeys(families)).index(name) for name in families]


def family(name: str) -> str:
    """A run's name without its seed."""
    return re.sub(r"[-_]seed[-_]?\d+$", "", name)


def short(name: str) -> str:
    """A name that fits a figure."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 12]}...{name[-9:]}"


def paper_curves(runs: Sequence[Run]) -> list[Drawing]:
    """The curves that the paper judges a run by."""
    return _drawn([*curves.held_out([run.steps for run in runs]), *curves.PAPER], runs)


def filter_curves(runs: Sequence[Run]) -> list[Drawing]:
    """What the filter saw, kept and wasted."""
    return [*_each(_groups, runs), *_drawn(curves.FILTER, runs)]


def update_curves(runs: Sequence[Run]) -> list[Drawing]:
    """What the updates did."""
    return _drawn(curves.UPDATES, runs)


def cost_curves(runs: Sequence[Run]) -> list[Drawing]:
    """Time, memory and throughput."""
    return [*_each(_times, runs), *_drawn(curves.COST, runs)]


def accuracy(runs: Sequence[Run]) -> list[Drawing]:
    """Evaluations of all runs with their intervals."""
    looks = styles(runs)
    rows = [
        (f"{short(run.name)}\n{e.name}" if len(runs) > 1 else e.name, e.mean, e.low, e.high, look)
        for run, look in zip(runs, looks, strict=True)
        for e in run.evaluations
    ]
    note = "Bars are 95 % intervals over problems."
    return [intervals("evaluations", "Accuracy", "share of samples right", rows, note)] if rows else []


def _each(draw: Callable[[Run, int, int], Drawing | None], runs: Sequence[Run]) -> list[Drawing]:
    """A figure of its own for each of the first runs."""
    found = [draw(run, index, len(runs)) for index, run in enumerate(runs[:_MOST_STACKED])]
    drawn = [drawing for drawing in found if drawing is not None]
    if drawn and len(runs) > _MOST_STACKED:
        left = len(runs) - _MOST_STACKED
        drawn[-1] = replace(drawn[-1], note=f"{drawn[-1].note} The other {left} runs have no such figure here.".strip())
    return drawn


def _drawn(chosen: Sequence[curves.Curve], runs: Sequence[Run]) -> list[Drawing]:
    found = [(curve, _plotted(curve, runs)) for curve in chosen]
    return [lines(c.name, c.title, c.unit, plotted, c.note) for c, plotted in found if plotted]


def _plotted(curve: curves.Curve, runs: Sequence[Run]) -> list[Plotted]:
    found: list[Plotted] = []
    for run, look in zip(runs, styles(runs), strict=True):
        for dash, line in enumerate(curve.lines):
            x, y = curves.series(run.steps, line)
            names = [short(family(run.name) if len(runs) > 1 else ""), line.label]
            legend = ", ".join(name for name in names if name)
            known = legend in {plotted.legend for plotted in found}
            label = ", ".join(name for name in (run.name if len(runs) > 1 else "", line.label) if name)
            if x:
                found.append(Plotted(label, "" if known else legend, x, y, look, dash))
    return found


def _groups(run: Run, index: int, of: int) -> Drawing | None:
    steps = {step: data for step, data in run.steps.items() if "sampling/generated_groups" in data}
    parts = {label: [data.get(key, 0.0) for data in steps.values()] for label, key in curves.REASONS.items()}
    parts = {label: values for label, values in parts.items() if any(values)}
    title = "Generated groups" + (f"\n{short(run.name)}" if of > 1 else "")
    note = "One group is one prompt; only kept ones train."
    return stacked(f"groups_{index}", title, "groups", list(steps), parts, note) if parts else None


def _times(run: Run, index: int, of: int) -> Drawing | None:
    steps = {step: data for step, data in run.steps.items() if "timing_s/step" in data}
    parts = step_parts(steps)
    title = "Where a step's time goes" + (f"\n{short(run.name)}" if of > 1 else "")
    return stacked(f"times_{index}", title, "seconds", list(steps), parts) if parts else None


def step_parts(steps: Steps) -> dict[str, list[float]]:
    """Seconds of each part of a step for every step, "other" what is left of it; parts that are always 0 left out."""
    parts = {}
    for label, keys in curves.TIMES.items():
        parts[label] = [next((data[key] for key in keys if key in data), 0.0) for data in steps.values()]
    whole = [data.get("timing_s/step", 0.0) + data.get("timing_s/testing", 0.0) for data in steps.values()]
    known = [sum(values) for values in zip(*parts.values(), strict=True)]
    parts["other"] = [max(0.0, w - k) for w, k in zip(whole, known, strict=True)]
    return {label: values for label, values in parts.items() if any(values)}
