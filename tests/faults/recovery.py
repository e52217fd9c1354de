"""Has a run gone on where it was? Judged from what it wrote and from verl's own order of the data."""

import json
import logging
from collections import defaultdict
from pathlib import Path

import torch

from tests.e2e.conftest import left_over, optimizer_steps, trace
from tests.faults.recipe import GROUPS, SAMPLES, UPDATES

_STATE = "dapo_state.json"
_DECIDED = ("kept", "all_correct", "all_wrong")


def attempts(run_dir: Path) -> list[Path]:
    """What verl's file logger wrote, one file a start."""
    return sorted((run_dir / "metrics").glob("*.jsonl"))


def logged(path: Path) -> dict[int, dict]:
    """Metrics by step of one start, a line that is being written left out."""
    lines = path.read_text().splitlines() if path.is_file() else []
    found = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        found[entry["step"]] = entry["data"]
    return found


def loads(folder: Path) -> bool:
    """Whether every file of a checkpoint can be read to its end."""
    logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)  # of meshes that are only read
    try:
        for path in folder.rglob("*.pt"):
            torch.load(path, weights_only=False)
        json.loads((folder / _STATE).read_text())
    except Exception:  # of a file cut short, torch raises whatever the first bytes look like
        return False
    return (folder / "data.pt").is_file() and len(list(folder.glob("actor/*.pt"))) == 3


def last_complete(run_dir: Path) -> int:
    """The step of the newest checkpoint that can be read and that verl's tracker covers; 0 when there is none."""
    return max(complete(run_dir), default=0)


def complete(run_dir: Path) -> list[int]:
    """The steps of all those checkpoints, oldest first."""
    root = run_dir / "checkpoints"
    tracker = root / "latest_checkpointed_iteration.txt"
    limit = tracker.read_text().strip() if tracker.is_file() else "0"
    found = sorted((int(p.name.rsplit("_", 1)[1]), p) for p in root.glob("global_step_*"))
    return [n for n, p in found if (not limit or n <= int(limit)) and loads(p)]


def problems(run_dir: Path, start: Path, resumed_from: int, order: list[str]) -> list[str]:
    """Say what a start got wrong that had to go on from the checkpoint of step `resumed_from`.

    Args:
        run_dir: the run, which trains no more.
        start: the metrics of that start.
        resumed_from: the step of the last complete checkpoint before it; 0 for none.
        order: keys of the prompts as verl draws them, over as many passes as there may have been.
    """
    steps = logged(start)
    found = []
    if min(steps) != resumed_from + 1:
        found.append(f"first step {min(steps)} instead of {resumed_from + 1}")
    for step, data in steps.items():
        if data["training/gradient_step"] != UPDATES * step:
            found.append(f"step {step} counts {data['training/gradient_step']} updates")
        if data["sampling/trained_groups"] != GROUPS:
            found.append(f"step {step} trained {data['sampling/trained_groups']} groups")
    last = last_complete(run_dir)
    if last < max(steps):  # a step is logged once it is saved
        found.append(f"step {max(steps)} is logged, the last complete checkpoint is of step {last}")
    found += carried_problems(run_dir, resumed_from)
    if last:
        found += checkpoint_problems(run_dir, last, order)
    return found


def carried_problems(run_dir: Path, resumed_from: int) -> list[str]:
    """The groups that were left over before the fault are the first of the step after it, and are trained."""
    if not resumed_from:
        return []
    left, resumed = left_over(trace(run_dir, resumed_from)), trace(run_dir, resumed_from + 1)
    carried = [(g["uid"], g["prompt"], g["acc"]) for g in resumed if g["carried"]]
    if carried != left:
        return [f"step {resumed_from} left {len(left)} groups over, the next carries {len(carried)}, not all the same"]
    answers = {g["uid"]: _answers(g) for g in trace(run_dir, resumed_from)}
    if other := [g["uid"] for g in resumed if g["carried"] and _answers(g) != answers[g["uid"]]]:
        return [f"carried groups {other} have other answers than before"]
    trained = {g["uid"] for g in resumed if g["trained"]}
    lost = {uid for uid, _, _ in left[:GROUPS]} - trained
    return [f"carried groups {sorted(lost)} were not trained"] if lost else []


def _answers(group: dict) -> tuple:
    return group["lengths"], group["truncated"]


def carried(run_dir: Path, resumed_from: int) -> int:
    """How many groups the step before a start had left over for it."""
    return len(left_over(trace(run_dir, resumed_from))) if resumed_from else 0


def checkpoint_problems(run_dir: Path, last: int, order: list[str]) -> list[str]:
    """Optimizer, order of the data and history of a checkpoint against the traces of all steps up to it."""
    folder = run_dir / "checkpoints" / f"global_step_{last}"
    state = json.loads((folder / _STATE).read_text())
    found = []
    if optimizer_steps(folder) != {UPDATES * last}:
        found.append(f"the optimizer of step {last} has made {optimizer_steps(folder)} updates")
    groups = [g for step in range(1, last + 1) for g in trace(run_dir, step) if not g["carried"]]
    sent = [g["prompt"] for g in groups]
    if sent != order[: len(sent)]:
        first = next(i for i, (a, b) in enumerate(zip(sent, order, strict=False)) if a != b)
        found.append(f"prompt {first} of the run is {sent[first]}, verl's order has {order[first]}")
    if state["sampler"]["prompts_fetched"] != len(sent):
        found.append(f"{state['sampler']['prompts_fetched']} prompts fetched, {len(sent)} in the traces")
    if state["sampler"]["history"]["accuracies"] != history(groups):
        found.append("the history of the prompts is not that of the traces")
    return found


def history(groups: list[dict]) -> dict[str, list[float]]:
    """Accuracies by prompt, in order of decision, of all complete groups."""
    decided = [g for g in groups if g["reason"] in _DECIDED and len(g["acc"]) == SAMPLES]
    found = defaultdict(list)
    for group in sorted(decided, key=lambda g: (g["step"], g["decided_at"])):
        found[group["prompt"]].append(sum(group["acc"]) / len(group["acc"]))
    return dict(found)
