"""Runs a recipe from its data to its summary; the same command resumes what was interrupted.

    python -m recipe.loop experiment=tiny technique=dapo cluster=cpu [key=value ...]

The arguments are Hydra overrides of the training. What happens around the training is the recipe's own `loop` section.
"""

import sys
import time
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from recipe.compose import compose
from recipe.errors import ConfigError
from recipe.loop.phases import Phase, Record, phases, report_page
from recipe.loop.processes import MemoryMeter, run_phase
from recipe.loop.progress import Display
from recipe.loop.summary import summarise
from recipe.loop.supervised import supervised
from recipe.main_dapo import settle_paths
from recipe.preflight import check_before_loop, check_loop, check_machine, check_recipe


def run_all(config: DictConfig, overrides: list[str], console: Console) -> dict:
    """Run every phase that is not done yet and return the summary."""
    record = run_phases(config, phases(config, overrides), console)
    return summarise(config, record, Path(config.run_dir))


def run_phases(config: DictConfig, wanted: list[Phase], console: Console) -> Record:
    """Run those of the phases that are not done yet, in order, and return the run's record."""
    run_dir = Path(config.run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    record = Record(run_dir / "loop.json")
    display = Display(console, config, run_dir / "metrics")
    todo = record.todo(wanted)
    with MemoryMeter() as meter:
        for phase in wanted:
            if phase not in todo:
                console.print(f"[bold]{phase.name}[/bold]  done before, {record.seconds(phase):.0f} s", highlight=False)
                continue
            run_one(phase, record, display, run_dir, meter)
    return record


def run_one(phase: Phase, record: Record, display: Display, run_dir: Path, meter: MemoryMeter) -> None:
    """Run one phase and record what it took, and that it is done."""
    log = run_dir / "logs" / f"{phase.name}.log"
    display.start(phase.name, phase.hint, log)
    started = time.monotonic()
    meter.take_peak()
    try:
        run_phase(phase.command, log, display.tick, phase.environment)
    finally:
        display.end()
        record.add(phase, time.monotonic() - started, meter.take_peak())
    record.finish(phase)


def load(overrides: list[str]) -> DictConfig:
    """Compose the recipe with absolute paths and check it and the machine."""
    config = compose(overrides)
    settle_paths(config)
    problems = check_recipe(config) + check_machine(config) + check_loop(config) + check_before_loop(config)
    if problems:
        raise ConfigError("this run cannot work:", problems)
    return config


def main() -> None:
    """Command line."""
    overrides, console = sys.argv[1:], Console(soft_wrap=True)
    with supervised():
        config = load(overrides)
        run_dir = Path(config.run_dir)
        console.print(f"run folder {run_dir}", highlight=False)
        summary = run_all(config, overrides, console)
    report(summary, run_dir, console)


def report(summary: dict, run_dir: Path, console: Console) -> None:
    """Print the summary's figures and where everything is."""
    for name in ("accuracy_base", "accuracy_before", "accuracy_after"):
        if (a := summary.get(name)) is None:
            continue
        console.print(
            f"{name}  {a['mean']:.3f}  [{a['low']:.3f}, {a['high']:.3f}]  {a['problems']} problems x {a['samples']}",
            markup=False,
            highlight=False,
        )
    console.print(
        f"{summary['steps']} steps, {summary['total_s']:.0f} s in all, peak memory {summary['peak_memory_gb']:.1f} GB; "
        f"summary: {run_dir / 'summary.json'}",
        highlight=False,
    )
    console.print(f"report: {report_page(run_dir)}", highlight=False)


if __name__ == "__main__":
    main()
