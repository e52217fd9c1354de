"""The report's tables, as text cells: accuracy, what training generated and wasted, phases, differences. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from eval.report.config import differences
from eval.report.curves import REASONS
from eval.report.read import Run
from recipe.metrics_log import Steps


@dataclass(frozen=True)
class Table:
    """Title, head and rows; the first cell of a row names it."""

    title: str
    head: list[str]
    rows: list[list[str]]


def accuracy(runs: Sequence[Run]) -> Table:
    """Every evaluation with its interval, and the gain of each run."""
    rows: list[list[str]] = []
    for run in runs:
        for e in run.evaluations:
            best, voted = (e.others.get(f"{name}@{e.samples}") for name in ("pass", "maj"))
            cut, unread = (e.others.get(f"{name}_share") for name in ("truncated", "unparsed"))
            rows.append(
                [run.name, e.name, f"{e.mean:.3f}", f"{e.low:.3f} to {e.high:.3f}", f"{e.problems} x {e.samples}",
                 *("" if x is None else f"{x:.3f}" for x in (best, voted)),
                 *("" if x is None else f"{x:.1%}" for x in (cut, unread))]
            )  # fmt: skip
        if run.gain is not None:
            mean, low, high = run.gain
            rows.append([run.name, "gain", f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}", "same problems", *[""] * 4])
    head = ["run", "evaluation", "mean", "95 % interval", "problems x samples"]
    head += ["pass@k", "maj@k", "truncated", "without an answer"]
    if len(runs) == 1:
        head, rows = head[1:], [row[1:] for row in rows]
    return Table("Mean accuracy of a sample", head, rows)


def sampling(runs: Sequence[Run]) -> Table:
    """What the rollouts of the whole run were used for."""
    names = {
        "groups generated": "sampling/generated_groups",
        **{f"groups {reason}": key for reason, key in REASONS.items()},
        "tokens generated": "sampling/tokens_generated",
        "tokens not trained on": "sampling/tokens_wasted",
    }
    columns = [{label: _total(run.steps, key) for label, key in names.items()} for run in runs]
    rows = [
        [label, *(_count(column[label]) for column in columns)]
        for label in names
        if any(column[label] for column in columns) or label.endswith("generated")
    ]
    waste = [_ratio(column["tokens not trained on"], column["tokens generated"]) for column in columns]
    rows.append(["share of tokens not trained on", *waste])
    title = "Over all logged steps"
    return Table(title, ["", *(run.name for run in runs)], rows if any(c["groups generated"] for c in columns) else [])


def phases(runs: Sequence[Run]) -> Table:
    """Seconds and peak memory of the phases of each run."""
    names = list(dict.fromkeys(phase.name for run in runs for phase in run.phases))
    rows = [[name, *(_phase(run, name) for run in runs)] for name in names]
    if rows:
        rows.append(["all", *(_whole(run) for run in runs)])
    return Table(
        "Phases: time over all attempts, peak memory of all processes", ["", *(run.name for run in runs)], rows
    )


def throughput(runs: Sequence[Run]) -> Table:
    """Mean step time and rates, the first logged step left out when there are more: it warms up."""
    rows = [
        ["seconds a step", *(_mean(run.steps, "timing_s/step") for run in runs)],
        ["tokens trained on, a second a device", *(_mean(run.steps, "perf/throughput") for run in runs)],
        ["tokens generated, a second of sampling", *(_rate(run.steps) for run in runs)],
    ]
    rows = [row for row in rows if any(row[1:])]
    return Table("Means over steps, without the first", ["", *(run.name for run in runs)], rows)


def config_differences(runs: Sequence[Run]) -> Table:
    """Where the resolved configurations of the runs differ."""
    rows = differences([run.config for run in runs], [str(run.folder.resolve()) for run in runs])
    head = ["key", *(run.name for run in runs)]
    return Table("Resolved configuration, only what differs", head, [[key, *values] for key, values in rows.items()])


def _phase(run: Run, name: str) -> str:
    for phase in run.phases:
        if phase.name == name:
            memory = f", {phase.peak_bytes / 1e9:.1f} GB" if phase.peak_bytes else ""
            return f"{phase.seconds:.0f} s{memory}{'' if phase.done else ' (not ended)'}"
    return ""


def _whole(run: Run) -> str:
    seconds = sum(phase.seconds for phase in run.phases)
    return f"{seconds:.0f} s" + (f", {run.peak_bytes / 1e9:.1f} GB" if run.peak_bytes else "")


def _total(steps: Steps, key: str) -> float:
    return sum(data.get(key, 0.0) for data in steps.values())


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _values(steps: Steps, key: str) -> list[float]:
    values = [data[key] for data in steps.values() if key in data]
    return values[1:] if len(values) > 1 else values


def _mean(steps: Steps, key: str) -> str:
    values = _values(steps, key)
    return f"{fmean(values):.1f}" if values else ""


def _rate(steps: Steps) -> str:
    tokens, seconds = _values(steps, "sampling/tokens_generated"), _values(steps, "sampling/seconds")
    return f"{sum(tokens) / sum(seconds):,.0f}" if sum(seconds) > 0 else ""
