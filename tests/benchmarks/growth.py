"""Benchmark: `python -m tests.benchmarks.growth [--only groups|length] [--steps N] [--seed S] [--json FILE]`.

How the seconds of a step of the tiny recipe on CPU grow:

    groups   8, 16, 32 and 64 groups of eight a step, eight groups an update, dynamic sampling on, the base model
    length   limits of 64, 128 and 256 tokens an answer, 8 groups of eight a step. The base model says what it has to
             say in about 25 tokens, so here an untrained one answers, which hardly ever ends by itself; none of its
             answers is right, so dynamic sampling is off and each group trains

The learning rate is 1e-9, so that all steps of a run are alike. Medians without the first step; every run is one start.
`response_length` is what was really generated, in tokens, mean over the trained samples. Prints a Markdown table and,
as its last line, one JSON object.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.sampler import STILL, make_base, medians, train

GROUPS = (8, 16, 32, 64)
LENGTHS = (64, 128, 256)
COLUMNS = {
    "step_s": "timing_s/step",
    "gen_s": "timing_s/gen",
    "update_s": "timing_s/update_actor",
    "response_length": "response_length/mean",
    "generated_groups": "sampling/generated_groups",
    "generated_tokens": "sampling/tokens_generated",
}
_PROMPT_TOKENS = 32  # at most, template included


def more_groups(count: int) -> list[str]:
    """Overrides of a step with so many groups."""
    return [f"data.train_batch_size={count}", "actor_rollout_ref.actor.ppo_mini_batch_size=8", STILL]


def longer_answers(limit: int, model: Path) -> list[str]:
    """Overrides of a step of eight groups with answers of up to `limit` tokens of the untrained `model`."""
    return [
        *more_groups(GROUPS[0]),
        "algorithm.filter_groups.enable=false",
        f"actor_rollout_ref.model.path={model}",
        f"data.max_response_length={limit}",
        f"actor_rollout_ref.rollout.max_model_len={_PROMPT_TOKENS + limit}",
    ]


def untrained(folder: Path, seed: int) -> Path:
    """Write the tiny model as it is before any training."""
    import torch

    from data_prep import tiny_model

    torch.manual_seed(seed)
    tokenizer = tiny_model.build_tokenizer()
    settings = tiny_model.WarmStart(seed=seed, careful_steps=0, manners_steps=0)
    tiny_model.save(tiny_model.build_model(tokenizer), tokenizer, folder, settings)
    return folder


def measure(only: str | None, steps: int, seed: int) -> dict[str, Any]:
    """Train every point of the series that are asked for."""
    result: dict[str, Any] = {"steps": steps, "seed": seed, "cores": psutil.cpu_count()}
    with tempfile.TemporaryDirectory(prefix="growth_bench_") as name:
        folder = Path(name)
        base = make_base(folder / "base", seed)

        def point(label: str, value: int, changed: Sequence[str]) -> dict[str, Any]:
            train(changed, base, folder / f"{label}{value}", steps, seed)
            return {label: value} | row(folder / f"{label}{value}")

        if only != "length":
            result["groups"] = [point("groups", count, more_groups(count)) for count in GROUPS]
        if only != "groups":
            model = untrained(folder / "untrained", seed)
            result["length"] = [point("limit", limit, longer_answers(limit, model)) for limit in LENGTHS]
    return result | {"load": round(psutil.getloadavg()[2], 1)}


def row(run_dir: Path) -> dict[str, float]:
    """The columns of one run."""
    found = medians(run_dir, list(COLUMNS.values()))
    return {name: found[key] for name, key in COLUMNS.items() if key in found}


def table(points: Sequence[dict[str, Any]]) -> str:
    """One series as a Markdown table, with the seconds of a step as multiples of the first point's."""
    names = [*points[0], "times the first"]
    lines = [" | ".join(names), "|".join("---" for _ in names)]
    for found in points:
        times = found["step_s"] / points[0]["step_s"]
        lines.append(" | ".join([*(f"{value:g}" for value in found.values()), f"{times:.2f}"]))
    return "\n".join(f"| {line} |" if i != 1 else f"|{line}|" for i, line in enumerate(lines))


def main() -> None:
    """Measure, print tables and one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("groups", "length"), help="leave the other series out")
    parser.add_argument("--steps", type=int, default=4, help="of each run, the first left out of the medians")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the result here")
    args = parser.parse_args()
    result = measure(args.only, args.steps, args.seed)
    for series in ("groups", "length"):
        if series in result:
            print(table(result[series]), end="\n\n")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
