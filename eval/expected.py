"""Is my run healthy? Compares a run's curves with those of recorded runs of the same recipe.

    python -m eval.expected RUN                                     # what is outside of the recorded ranges, and where
    python -m eval.expected RUN RUN [RUN ...] --record FILE.json    # record the ranges of runs that differ in the seed

A range is where one more seed would be, with 95 % probability: mean +- t s sqrt(1 + 1/n) of the n recorded runs, s over
the step and its two neighbours on each side (Student's t, n - 1 degrees of freedom; pooling makes it a little wide). So
about one value in twenty of a healthy run is outside; a curve that leaves its range for good is another matter.
"""

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.report.read import Run, read_run
from recipe.ablation.table import t_point
from recipe.compose import CONFIG_DIR
from recipe.metrics_log import Steps
from recipe.provenance import write_text_atomic

FOLDER = CONFIG_DIR / "expected"
CURVES = {
    "reward": "sampling/reward/before_filter",
    "accuracy": "sampling/acc/before_filter",
    "response length": "sampling/response_length/before_filter",
    "groups kept": "sampling/kept_share",
    "entropy": "actor/entropy",
}
"""Metric by the name that people know it by; all of generated answers, but entropy, which is of trained ones."""
_POSSIBLE = {
    "accuracy": (0.0, 1.0),
    "groups kept": (0.0, 1.0),
    "response length": (0.0, math.inf),
    "entropy": (0.0, math.inf),
}
_NEIGHBOURS = 2  # steps on each side whose spread counts for a step

Ranges = dict[str, dict[int, tuple[float, float]]]
"""Lowest and highest expected value by curve and step."""


def ranges(runs: Sequence[Steps]) -> Ranges:
    """Ranges over the steps that all runs have logged.

    Raises:
        ValueError: fewer than two runs: one says nothing about the spread.
    """
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} run(s) have no spread: record at least two that differ in their seed")
    found: Ranges = {}
    for name, key in CURVES.items():
        common = sorted(set.intersection(*({step for step, data in run.items() if key in data} for run in runs)))
        values = {step: [run[step][key] for run in runs] for step in common}
        spread = {step: statistics.variance(values[step]) for step in common}
        found[name] = {}
        for step in common:
            near = [spread[other] for other in common if abs(other - step) <= _NEIGHBOURS]
            half = t_point(len(runs)) * math.sqrt(statistics.fmean(near) * (1 + 1 / len(runs)))
            mean = statistics.fmean(values[step])
            least, most = _POSSIBLE.get(name, (-math.inf, math.inf))
            found[name][step] = (max(least, mean - half), min(most, mean + half))
    return found


def outside(steps: Steps, expected: Ranges) -> dict[str, tuple[list[int], int]]:
    """By curve: the steps at which a run is outside of its range, and how many steps could be compared."""
    found = {}
    for name, by_step in expected.items():
        shared = [step for step in by_step if CURVES[name] in steps.get(step, {})]
        beyond = [step for step in shared if not by_step[step][0] <= steps[step][CURVES[name]] <= by_step[step][1]]
        found[name] = (beyond, len(shared))
    return found


def record(runs: Sequence[Run]) -> dict[str, Any]:
    """What is stored of recorded runs.

    Raises:
        ValueError: as `ranges`, or the runs are not of one recipe and commit.
    """
    for what, values in (("recipes", {recipe_of(run) for run in runs}), ("commits", {run.commit for run in runs})):
        if len(values) > 1:
            raise ValueError(f"the runs are of several {what}: {', '.join(sorted(values))}")
    found = ranges([run.steps for run in runs])
    rounded = {
        name: {str(s): [round(x, 4) for x in pair] for s, pair in by_step.items()} for name, by_step in found.items()
    }
    return {"recipe": recipe_of(runs[0]), "commit": runs[0].commit, "runs": len(runs), "ranges": rounded}


def recipe_of(run: Run) -> str:
    """`experiment-technique` of a run."""
    return f"{run.config.get('recipe.experiment')}-{run.config.get('recipe.technique')}"


def described(run: Run, stored: dict[str, Any]) -> list[str]:
    """The comparison in lines for a person."""
    expected = {n: {int(s): (low, high) for s, (low, high) in by.items()} for n, by in stored["ranges"].items()}
    lines = [f"{run.name} beside {stored['runs']} runs of {stored['recipe']} at commit {stored['commit']}"]
    for name, (beyond, count) in outside(run.steps, expected).items():
        text = f"{name:16} {count - len(beyond)} of {count} steps within range"
        if beyond:
            (low, high), value = expected[name][beyond[-1]], run.steps[beyond[-1]][CURVES[name]]
            text += f"; last outside at step {beyond[-1]}: {value:.3f}, expected {low:.3f} to {high:.3f}"
        lines.append(text)
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Command line; ends with status 2 for input that cannot be used."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders, outputs/<run>")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the ranges of these runs here")
    args = parser.parse_args(argv)
    try:
        runs = [read_run(folder) for folder in args.runs]
        if args.record is not None:
            write_text_atomic(args.record, json.dumps(record(runs), indent=1) + "\n")
            return
        for run in runs:
            print(*described(run, recorded_for(run)), sep="\n")
    except ValueError as error:
        parser.exit(2, f"error: {error}\n")


def recorded_for(run: Run) -> dict[str, Any]:
    """What is recorded of a run's recipe.

    Raises:
        ValueError: nothing is.
    """
    path = FOLDER / f"{recipe_of(run)}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.json")))
        raise ValueError(f"{run.name}: no ranges of {recipe_of(run)} are recorded (there are: {known})")
    return dict(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
