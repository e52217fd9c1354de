"""Benchmark: `python -m tests.benchmarks.sampler [--steps N] [--seed S] [--base FOLDER] [--json FILE]`.

Trains the tiny recipe on CPU twice from the same data, base model and seed: with our sampler and with verl's built-in
one (`trainer.v1.trainer_mode=sync`, no custom sampler, `filter_groups.metric=acc`); all else is equal. Compares the
groups trained a step, read off verl's own rollout dumps, and the wall-clock of a step and of its generation, read off
verl's `timing_s`. Step 1 is left out of the medians: it warms the engine up. No validation, no checkpoint but the last.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from recipe.metrics_log import read_steps

ROOT = Path(__file__).parents[2]
STILL = "actor_rollout_ref.actor.optim.lr=1e-9"
"""Holds the model still: whatever is compared then answers alike at every step."""
SAMPLERS = {
    "ours": [],
    "verl_builtin": [
        "trainer.v1.trainer_mode=sync",
        "trainer.v1.sampler.custom_sampler.path=null",
        "trainer.v1.sampler.custom_sampler.name=null",
    ],
}


def command(module: str, *arguments: object) -> None:
    """Run `python -m module` of this repository; its output goes where ours goes."""
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], cwd=ROOT, check=True, stdout=sys.stderr)


def train(changed: Sequence[str], base: Path, run_dir: Path, steps: int, seed: int) -> dict[str, Any]:
    """Train the tiny recipe with the overrides `changed`; return its figures."""
    command("tests.benchmarks.sampler", "--train", *words(base, run_dir, steps, seed), *changed)
    return figures(run_dir)


def words(base: Path, run_dir: Path, steps: int, seed: int) -> list[str]:
    """Overrides of the tiny recipe on what `make_base` has made: nothing but steps."""
    return [
        "experiment=tiny",
        "technique=dapo",
        "cluster=cpu",
        f"seed={seed}",
        f"run_dir={run_dir}",
        f"actor_rollout_ref.model.path={base}/base_model",
        f"data.train_files={base}/data/train.parquet",
        f"data.val_files={base}/data/test.parquet",
        f"trainer.total_training_steps={steps}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
    ]


def run_training(overrides: list[str]) -> None:
    """Train in this process. Not through the entry point: its checks refuse a run without our trainer."""
    from recipe.compose import compose
    from recipe.main_dapo import settle_paths, start
    from recipe.tracking import always_to_file

    config = compose(overrides)
    settle_paths(config)
    always_to_file(config)
    start(config, [])


def figures(run_dir: Path) -> dict[str, Any]:
    """Groups a step (all steps) and median seconds a step and of its generation (without the first)."""
    logged = read_steps(run_dir / "metrics").values()
    dumps = sorted((run_dir / "rollouts").glob("*.jsonl"), key=lambda path: int(path.stem))
    warm = medians(run_dir, ["timing_s/step", "timing_s/gen", "response_length/mean"])
    return {
        "groups_a_step": [groups(path) for path in dumps],
        "step_s": warm["timing_s/step"],
        "gen_s": warm["timing_s/gen"],
        "all_step_s": [round(data["timing_s/step"], 2) for data in logged],
        "all_gen_s": [round(data["timing_s/gen"], 2) for data in logged],
        "response_length": round(warm["response_length/mean"], 1),
    }


def medians(run_dir: Path, keys: Sequence[str]) -> dict[str, float]:
    """Medians over the steps without the first, of those keys that every such step has logged."""
    warm = [data for step, data in read_steps(run_dir / "metrics").items() if step > 1]
    return {key: round(median(data[key] for data in warm), 2) for key in keys if all(key in data for data in warm)}


def groups(dump: Path) -> int:
    """Prompts in a rollout dump of verl."""
    return len({uid.split("_")[0] for uid in _uids(dump)})


def samples(dump: Path) -> int:
    """Samples in a rollout dump of verl."""
    return len(_uids(dump))


def _uids(dump: Path) -> list[str]:
    """Names of the samples; padding rows are none."""
    uids = [json.loads(line)["uid"] for line in dump.open()]
    return [uid for uid in uids if not uid.startswith("pad")]


def make_base(base: Path, seed: int) -> Path:
    """Make data and base model as the tiny recipe does; a folder that has them is used as it is."""
    if not (base / "data").is_dir():
        data = ["--min_value", 10, "--max_value", 99, "--train_rows", 4000, "--test_rows", 32, "--template", "none"]
        command("data_prep.prepare", "arithmetic", "--out", base / "data", "--seed", seed, *data)
    if not (base / "base_model").is_dir():
        command("data_prep.tiny_model", "--out", base / "base_model", "--seed", seed)
    return base


def compare(steps: int, seed: int, samplers: Sequence[str], base: Path | None = None) -> dict[str, Any]:
    """Train with every sampler on one data and base model, put the figures side by side."""
    with tempfile.TemporaryDirectory(prefix="sampler_bench_") as folder:
        base = make_base(base or Path(folder) / "base", seed)
        found: dict[str, Any] = {
            name: train(SAMPLERS[name], base, Path(folder) / name, steps, seed) | {"load": psutil.getloadavg()[1]}
            for name in samplers
        }
    result = {"steps": steps, "seed": seed, "cores": psutil.cpu_count(), "samplers": found}
    if len(found) == len(SAMPLERS):
        ours, builtin = found["ours"], found["verl_builtin"]
        result["same_groups_a_step"] = ours["groups_a_step"] == builtin["groups_a_step"]
        result["builtin_over_ours_step"] = round(builtin["step_s"] / ours["step_s"], 2)
        result["builtin_over_ours_gen"] = round(builtin["gen_s"] / ours["gen_s"], 2)
    return result


def main() -> None:
    """Measure, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(SAMPLERS), action="append", help="leave the others out")
    parser.add_argument("--base", type=Path, help="folder with `data` and `base_model`, made where missing")
    parser.add_argument("--json", type=Path, help="also write the result here")
    parser.add_argument("--train", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        run_training(args.train)
        return
    result = compare(args.steps, args.seed, args.only or list(SAMPLERS), args.base)
    print(json.dumps(result, indent=1))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
