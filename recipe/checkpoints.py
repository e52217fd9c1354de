"""Which checkpoints on disk are complete, and our own file inside them. Pure: no torch, no verl."""

import json
import logging
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from recipe.provenance import write_text_atomic

logger = logging.getLogger(__name__)

STATE_FILE = "dapo_state.json"
CARRIED_FILE = "carried_groups.pt"
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
    """Names of files that a complete checkpoint of `world_size` ranks has and `folder` lacks or holds cut short."""
    shards = [f"actor/{kind}_world_size_{world_size}_rank_{rank}.pt" for kind in _SHARDS for rank in range(world_size)]
    needed = [*shards, "actor/huggingface/config.json", "data.pt", STATE_FILE]
    carried = [CARRIED_FILE] if (folder / CARRIED_FILE).exists() else []
    return [name for name in (*needed, *carried) if not whole(folder / name)]


def whole(path: Path) -> bool:
    """Whether a file is there to its end. What torch saves is a ZIP archive, whose directory stands at the end."""
    if path.suffix == ".pt":
        return zipfile.is_zipfile(path)
    try:
        json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    return True


def step_of(folder: Path) -> int:
    """Step that a `global_step_N` folder was written at."""
    return int(folder.name.rsplit("_", 1)[1])


def steps(root: Path) -> list[Path]:
    """Checkpoint folders below `root` that verl's tracker covers, newest first.

    A folder newer than the tracker was being written when the run ended. A tracker that holds no number was itself
    being written, which is the last thing that a save does: then every folder counts.
    """
    tracker = (root / TRACKER_FILE).read_text().strip()
    limit = int(tracker) if tracker.isdecimal() else None
    found = [p for p in root.glob("global_step_*") if re.fullmatch(r"global_step_\d+", p.name)]
    return sorted((p for p in found if limit is None or step_of(p) <= limit), key=step_of, reverse=True)


def latest_complete(root: Path, world_size: int) -> Path | None:
    """The newest complete checkpoint below `root`, or None when there is none at all.

    Raises:
        ValueError: checkpoints exist, but none is complete for this world size.
    """
    if not (root / TRACKER_FILE).is_file():
        return None
    problems = []
    for folder in steps(root):
        missing = missing_parts(folder, world_size)
        if not missing:
            return folder
        more = " ..." if len(missing) > 3 else ""
        problems.append(f"{folder.name} lacks, or holds cut short, {', '.join(missing[:3])}{more}")
    raise ValueError(
        f"{root} has no checkpoint that is complete for {world_size} ranks ({'; '.join(problems) or 'no folder'}). A "
        "run resumes only with the number of ranks it was saved with: restore nnodes and n_gpus_per_node, or export "
        "the model and start a new run_dir from it"
    )


def world_size(config: DictConfig) -> int:
    """Ranks of the actor, one a device."""
    return config.trainer.nnodes * config.trainer.n_gpus_per_node


def resume_folder(config: DictConfig) -> Path | None:
    """The checkpoint that a start would resume from, None for a fresh start; raises as `latest_complete`."""
    if config.trainer.resume_mode == "auto":
        return latest_complete(Path(config.trainer.default_local_dir), world_size(config))
    return Path(config.trainer.resume_from_path) if config.trainer.resume_mode == "resume_path" else None


def set_aside(root: Path, step: int) -> list[Path]:
    """Rename checkpoints newer than `step` to `abandoned_*`, and return their new names.

    For a start that went back behind them on purpose: left in place, one of them would sooner or later be the newest.
    """
    renamed = []
    for folder in sorted(root.glob("global_step_*")):
        if re.fullmatch(r"global_step_\d+", folder.name) and step_of(folder) > step:
            names = (root / f"abandoned_{folder.name}{suffix}" for suffix in ("", *(f".{i}" for i in range(1, 1000))))
            renamed.append(folder.rename(next(name for name in names if not name.exists())))
    return renamed


def rotate(root: Path, keep: int | None, ranks: int) -> list[Path]:
    """Delete checkpoints older than the newest `keep` complete ones, and return what was deleted.

    One that cannot be deleted, wholly or in part, is no reason to end a training: a warning says so, and since what is
    left of it is older than the kept ones still, the next call tries again.

    verl deletes the oldest before it writes the new one, keeps its list in memory, so that a resume forgets what was
    there, and leaves everything but `actor/` behind. Call this once the new checkpoint is complete: until then nothing
    goes, and an incomplete one never counts as kept.
    """
    if not keep or not (root / TRACKER_FILE).is_file():
        return []
    folders = steps(root)
    kept = [folder for folder in folders if not missing_parts(folder, ranks)][:keep]
    if len(kept) < keep:
        return []
    old = [folder for folder in folders if step_of(folder) < step_of(kept[-1])]
    return [folder for folder in old if _deleted(folder)]


def _deleted(folder: Path) -> bool:
    """Delete a folder; False, with a warning, when that fails, as on NFS while a process has a file open."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        logger.warning(
            "%s could not be deleted (%s); the next save tries again, until then watch the disk", folder, error
        )
        return False
    return True
