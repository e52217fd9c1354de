"""One base model for all end-to-end tests, and a way to run the recipe's own commands."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from recipe.metrics_log import read_steps

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(1200))


def run_module(module, *arguments, check=True, timeout=1100):
    """Run `python -m module` from the repository and return the completed process."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"},
    )
    if check:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def metrics(run_dir):
    """All logged steps of a run, of each its last attempt: a list of (step, metrics)."""
    return list(read_steps(Path(run_dir) / "metrics").items())


def mine(marker):
    """Living processes whose command line or environment names this run."""
    found = []
    for process in psutil.process_iter():
        try:
            if marker in " ".join(process.cmdline()) or marker in " ".join(process.environ().values()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def trace(run_dir, step):
    """Every group of a step in dispatch order, as the sampler wrote it: a list of dictionaries."""
    return [json.loads(line) for line in (Path(run_dir) / "sampling" / f"{step}.jsonl").open()]


def left_over(groups):
    """Groups of a step's trace that were kept and found no room, which the next step carries: (uid, prompt, acc)."""
    left = [g for g in groups if g["reason"] == "kept" and not g["trained"] and not g["carried"]]
    return [(g["uid"], g["prompt"], g["acc"]) for g in left]


def dumped(run_dir, step):
    """Keys `{uid}_{session}_{index}` of the samples in verl's own rollout dump of a step."""
    return [json.loads(line)["uid"] for line in (Path(run_dir) / "rollouts" / f"{step}.jsonl").open()]


def optimizer_steps(checkpoint, world_size=1, rank=0):
    """Updates that the optimizer of a checkpoint has made, by its own state: one number if all is well."""
    import torch

    logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)  # of a mesh that is only read
    path = checkpoint / "actor" / f"optim_world_size_{world_size}_rank_{rank}.pt"
    state = torch.load(path, weights_only=False)["state"]
    return {int(entry["step"]) for entry in state.values()}


def prompts_in_order(path, seed, epochs=1):
    """The order in which verl draws the prompts of a parquet file, as keys of the sampling trace."""
    import pyarrow.parquet as pq
    from verl.trainer.ppo.utils import create_rl_sampler

    from recipe.compose import compose

    rows = pq.read_table(path).to_pylist()
    sampler = create_rl_sampler(compose([f"seed={seed}"]).data, rows)
    return [f"{rows[i]['data_source']}/{rows[i]['extra_info']['index']}" for _ in range(epochs) for i in sampler]


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A folder with `data` and `base_model`, made by the project's own commands."""
    folder = tmp_path_factory.mktemp("base")
    run_module(
        "data_prep.prepare", "arithmetic", "--out", folder / "data", "--template", "none",
        "--min_value", 10, "--train_rows", 1000, "--test_rows", 32,
    )  # fmt: skip
    run_module("data_prep.tiny_model", "--out", folder / "base_model", "--careful_steps", 300)  # adds well enough here
    return folder
