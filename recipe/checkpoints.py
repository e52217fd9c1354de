"""Which checkpoints on disk are complete, and our own file inside them. Pure: no torch, no verl."""

import json
import re
from pathlib import Path
from typing import Any

from reward.provenance import write_text_atomic

STATE_FILE = "dapo_state.json"
TRACKER_FILE = "latest_checkpointed_iteration.txt"
_SHARDS = ("model", "optim", "extra_state")


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Store our part of a checkpoint (sampler state, identity of the run)."""
    write_text_atomic(folder / STATE_FILE, json.dumps(state, indent=1) + "\n")


def read_state(folder: Path) -> dict[str, Any]:
    """Read what `write_state` stored.

    Raises:
        ValueError: the checkpoint was not written by this recipe.
    """
    try:
        return json.loads((folder / STATE_FILE).read_text())
    except (FileNotFoundError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{folder} has no readable {STATE_FILE}: it was not written by this recipe. Export its model and start a "
            "new run from that (actor_rollout_ref.model.path)"
        ) from error


def missing_parts(folder: Path, world_size: int) -> list[str]:
    """Names of files that a complete checkpoint of `world_size` ranks has and `folder` lacks or holds empty."""
    shards = [f"actor/{kind}_world_size_{world_size}_rank_{rank}.pt" for kind in _SHARDS for rank in range(world_size)]
    needed = [*shards, "actor/huggingface/config.json", "data.pt", STATE_FILE]
    return [name for name in needed if not (folder / name).is_file() or (folder / name).stat().st_size == 0]


def steps(root: Path) -> list[Path]:
    """Checkpoint folders below `root`, newest first."""
    found = [p for p in root.glob("global_step_*") if re.fullmatch(r"global_step_\d+", p.name)]
    return sorted(found, key=lambda p: int(p.name.rsplit("_", 1)[1]), reverse=True)


def latest_complete(root: Path, world_size: int) -> Path | None:
    """The newest complete checkpoint below `root`, or None when there is none at all.

    Only folders up to the step in verl's tracker count: a newer one was being written when the run ended.

    Raises:
        ValueError: checkpoints exist, but none is complete for this world size.
    """
    tracker = root / TRACKER_FILE
    if not tracker.is_file():
        return None
    limit = int(tracker.read_text())
    candidates = [p for p in steps(root) if int(p.name.rsplit("_", 1)[1]) <= limit]
    problems = []
    for folder in candidates:
        missing = missing_parts(folder, world_size)
        if not missing:
            return folder
        problems.append(f"{folder.name} lacks {', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}")
    raise ValueError(
        f"{root} has no checkpoint that is complete for {world_size} ranks ({'; '.join(problems) or 'no folder'}). A "
        "run resumes only with the number of ranks it was saved with: restore nnodes and n_gpus_per_node, or export "
        "the model and start a new run_dir from it"
    )
