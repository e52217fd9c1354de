"""Runs the ladder: every rung with every seed, a table, a report. The same command goes on where it stopped.

    python -m recipe.ablation --out outputs/ablation --seeds 1 2 3 [--rungs naive_grpo dapo] [-- key=value ...]

Words are Hydra overrides of all runs. `--out` gets a folder a run, `table.md` and `table.json` (anew after each run),
and `report/`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from recipe.ablation.ladder import PAPER, Rung, base_folder, plan
from recipe.ablation.table import markdown, rows
from recipe.loop.__main__ import load, run_phases
from recipe.loop.phases import phases, quoted
from recipe.loop.summary import summarise
from recipe.loop.supervised import supervised
from recipe.provenance import write_text_atomic

PREPARATION = ("data", "base_model", "evaluate_before")
TRAINING = ("train", "export", "evaluate_after")


def prepare(out: Path, seed: int, words: list[str], console: Console) -> None:
    """Data, base model and its evaluation of one seed, which every rung starts from."""
    overrides = [*words, f"seed={seed}", f"run_dir={quoted(str(base_folder(out, seed)))}"]
    config = load(overrides)
    console.print(f"[bold]seed {seed}[/bold]  data and base model", highlight=False)
    run_phases(config, [p for p in phases(config, overrides) if p.name in PREPARATION], console)


def climb(rung: Rung, words: list[str], console: Console) -> None:
    """Train and evaluate one rung on its seed's base."""
    overrides = [*words, *rung_words(rung)]
    config = load(overrides)
    console.print(f"[bold]seed {rung.seed}, {rung.technique}[/bold]", highlight=False)
    (rung.folder / "eval").mkdir(parents=True, exist_ok=True)
    for path in sorted((rung.base / "eval").glob("before.*")):
        shutil.copy2(path, rung.folder / "eval")
    record = run_phases(config, [p for p in phases(config, overrides) if p.name in TRAINING], console)
    summarise(config, record, rung.folder)


def rung_words(rung: Rung) -> list[str]:
    """Hydra overrides that make a run this rung."""
    paths = {
        "run_dir": rung.folder,
        "actor_rollout_ref.model.path": rung.base / "base_model",
        "data.train_files": rung.base / "data/train.parquet",
        "data.val_files": rung.base / "data/test.parquet",
    }
    named = [f"{key}={quoted(str(path))}" for key, path in paths.items()]
    return [f"technique={rung.technique}", f"seed={rung.seed}", "loop.base_model=null", *named]


def write_table(out: Path, rungs: list[Rung], words: list[str]) -> str:
    """Write the table of all runs that are done, as Markdown and as JSON; return the Markdown."""
    accuracies: dict[str, dict[int, float]] = {}
    commits, steps = set(), set()
    for rung in rungs:
        if (path := rung.folder / "summary.json").is_file():
            summary = json.loads(path.read_text())
            accuracies.setdefault(rung.technique, {})[rung.seed] = summary["accuracy_after"]["mean"]
            commits.add(summary["commit"])
            steps.add(summary["steps"])
    found = rows(accuracies)
    seeds, names = dict.fromkeys(rung.seed for rung in rungs), dict.fromkeys(rung.technique for rung in rungs)
    chosen = f"--seeds {' '.join(map(str, seeds))} --rungs {' '.join(names)}"
    what = f"`python -m recipe.ablation {chosen} -- {' '.join(words)}`, {os.cpu_count()} CPU cores"
    caption = f"{what}; {', '.join(map(str, sorted(steps)))} steps; commit {', '.join(sorted(commits))}."
    text = markdown(found, caption)
    write_text_atomic(out / "table.md", text)
    content = {"accuracies": accuracies, "rows": [asdict(row) | {"direction": row.direction} for row in found]}
    content |= {"commits": sorted(commits), "words": words, "steps": sorted(steps)}
    write_text_atomic(out / "table.json", json.dumps(content, indent=1) + "\n")
    return text


def report(out: Path, rungs: list[Rung]) -> None:
    """The report of all runs, seed by seed in the ladder's order."""
    folders = [str(rung.folder) for rung in rungs if (rung.folder / "metrics").is_dir()]
    subprocess.run([sys.executable, "-m", "eval.report", *folders, "--out", str(out / "report")], check=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m recipe.ablation",
        usage="%(prog)s [--out OUT] [--seeds SEED ...] [--rungs TECHNIQUE ...] [-- key=value ...]",
        description="Run the paper's ladder.",
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/ablation"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rungs", nargs="+", default=list(PAPER), metavar="TECHNIQUE", help=", ".join(PAPER))
    parser.add_argument("words", nargs="*", metavar="key=value", help="Hydra overrides of all runs")
    return parser.parse_intermixed_args()


def run(args: argparse.Namespace, console: Console) -> None:
    """Everything, in order."""
    out = args.out.expanduser().resolve()
    rungs = plan(out, args.seeds, args.rungs)
    out.mkdir(parents=True, exist_ok=True)
    for rung in rungs:
        prepare(out, rung.seed, args.words, console)
        climb(rung, args.words, console)
        table = write_table(out, rungs, args.words)
    console.print(table, markup=False, highlight=False)
    report(out, rungs)


def main() -> None:
    """Command line."""
    args, console = arguments(), Console(soft_wrap=True)
    with supervised():
        run(args, console)


if __name__ == "__main__":
    main()
