"""Rules on checkpoints: kept, complete, resumable, on a disk that every node sees and that has room."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from omegaconf import DictConfig

from recipe.checkpoints import TRACKER_FILE, missing_parts, read_state, resume_folder, step_of, steps, world_size
from recipe.preflight.memory import checkpoint_bytes
from recipe.preflight.model_facts import ModelFacts
from recipe.resume_rules import resume_problems
from recipe.run_identity import identity, load_bearing, loop_commands

# File systems that other nodes do not see. Anything else (nfs, lustre, gpfs, ceph, fuse ...) is taken as shared.
_LOCAL = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "ramfs", "overlay", "apfs"}


def kept(config: DictConfig) -> Iterator[str]:
    """The last good checkpoint is never the only one that may go."""
    keep = config.trainer.max_actor_ckpt_to_keep
    if keep is not None and keep < 1:
        yield (
            f"trainer.max_actor_ckpt_to_keep={keep} must be at least 1 (2 by default), or null to keep every checkpoint"
        )


def contents(config: DictConfig) -> Iterator[str]:
    """A checkpoint holds what a resume and an export need."""
    actor = config.actor_rollout_ref.actor.checkpoint
    if missing := [part for part in ("model", "optimizer", "extra") if part not in actor.save_contents]:
        yield (
            f"actor_rollout_ref.actor.checkpoint.save_contents={list(actor.save_contents)} lacks {', '.join(missing)}: "
            "no run could resume from it; use [model, optimizer, extra], and hf_model for a joined copy too"
        )
    if actor.async_save:
        yield (
            "actor_rollout_ref.actor.checkpoint.async_save=true: verl then never says which checkpoint is complete; "
            "set it to false"
        )


def resume_mode(config: DictConfig) -> Iterator[str]:
    """The way to resume exists, and names a checkpoint where it must."""
    mode, path = config.trainer.resume_mode, config.trainer.resume_from_path
    if mode not in ("auto", "disable", "resume_path"):
        yield f"trainer.resume_mode={mode} is unknown: use auto (newest complete checkpoint), disable or resume_path"
    elif mode == "resume_path" and not re.fullmatch(r"global_step_\d+", Path(str(path or "")).name):
        yield (
            f"trainer.resume_from_path={path} must be a global_step_N folder with trainer.resume_mode=resume_path; "
            "name one, or use resume_mode=auto"
        )


def resumable(config: DictConfig) -> Iterator[str]:
    """What is in the checkpoint folder is complete, of this run and of this world size."""
    yield from _resume(config, lambda old: identity(config))


def changed_settings(config: DictConfig) -> Iterator[str]:
    """What the configuration alone says about a resume; the loop may make data and base model anew before it."""
    new = {"config": load_bearing(config), "loop": loop_commands(config)}
    yield from _resume(config, lambda old: {**old, **new}, in_loop=True)


def _resume(
    config: DictConfig, new: Callable[[dict[str, Any]], dict[str, Any]], in_loop: bool = False
) -> Iterator[str]:
    """Compare the checkpoint that would be resumed from with the identity that `new` makes of the stored one."""
    try:
        folder = resume_folder(config)
        if folder is None:
            return
        if missing := missing_parts(folder, world_size(config)):
            yield (
                f"{folder} lacks, or holds cut short, {', '.join(missing[:3])} for {world_size(config)} ranks: resume "
                "from a complete one"
            )
        stored = read_state(folder)["run"]
        yield from resume_problems(folder, stored, new(stored), config.allow_changed_resume, in_loop)
    except ValueError as error:
        yield f"trainer.default_local_dir={config.trainer.default_local_dir}: {error}"
        return
    total = config.trainer.total_training_steps
    if step_of(folder) > total:
        yield (
            f"trainer.total_training_steps={total}, but {folder} is trained further already; raise it, or take a new "
            "run_dir"
        )


def trained_already(config: DictConfig) -> Path | None:
    """The checkpoint that already holds every step of this run, None when there is something to train."""
    folder = resume_folder(config)
    return folder if folder and step_of(folder) == config.trainer.total_training_steps else None


def shared_disk(config: DictConfig) -> Iterator[str]:
    """With several nodes every rank writes to the same place."""
    if config.trainer.nnodes == 1 or config.trainer.device == "cpu" or config.preflight.shared_checkpoints:
        return
    folder = Path(config.trainer.default_local_dir).expanduser().resolve()
    kind = file_system(folder)
    if kind in _LOCAL:
        yield (
            f"trainer.default_local_dir={folder} is on a local disk ({kind}) while "
            f"trainer.nnodes={config.trainer.nnodes}: each node would keep its own shards only; set run_dir to a "
            "shared file system, or preflight.shared_checkpoints=true if this is one"
        )


def model_on_every_node(config: DictConfig) -> Iterator[str]:
    """A note: with several nodes each one reads the model's folder, which may be on this one only."""
    name = str(config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser().resolve()
    if config.trainer.nnodes == 1 or config.trainer.device == "cpu" or not folder.is_dir():
        return
    if (kind := file_system(folder)) in _LOCAL:
        yield (
            f"actor_rollout_ref.model.path={name} is on a local disk ({kind}) while trainer.nnodes="
            f"{config.trainer.nnodes}: every node must have this model there"
        )


def file_system(folder: Path) -> str:
    """Type of the file system that `folder` is, or will be, on."""
    mounts = {p.mountpoint: p.fstype for p in psutil.disk_partitions(all=True)}
    return next((mounts[str(p)] for p in (folder, *folder.parents) if str(p) in mounts), "unknown")


def disk_space(config: DictConfig, model: ModelFacts | None) -> Iterator[str]:
    """The checkpoints fit: those that are kept and the one being written."""
    size, keep = checkpoint_bytes(config, model), config.trainer.max_actor_ckpt_to_keep
    if size is None or config.trainer.save_freq < 1:
        return
    root = Path(config.trainer.default_local_dir).expanduser().resolve()
    old = rotating(config, root)
    free = shutil.disk_usage(existing(root)).free
    total, every = config.trainer.total_training_steps, config.trainer.save_freq
    saves = -(-total // every) - (step_of(old[0]) if old else 0) // every
    count, deleted = max(
        ((count, freed(old, count, keep)) for count in range(1, min(saves, keep + 1 if keep else saves) + 1)),
        key=lambda pair: pair[0] * size - pair[1],
        default=(0, 0),
    )
    if free + deleted < count * size:
        gone = f", {size_text(deleted)} of older ones go meanwhile" if deleted else ""
        yield (
            f"trainer.default_local_dir={config.trainer.default_local_dir}: {size_text(free)} free at "
            f"{existing(root)}, {count} checkpoints of {size_text(size)} need {size_text(count * size)} "
            f"(max_actor_ckpt_to_keep={keep} and the one being written){gone}; free some, keep fewer, or set run_dir "
            "elsewhere"
        )


def size_text(size: float) -> str:
    """Bytes as a person reads them."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def rotating(config: DictConfig, root: Path) -> list[Path]:
    """Complete checkpoints that this start goes on from, newest first: only these does the rotation ever delete.

    What another start has set aside stays, and with another `resume_mode` this start sets aside what it finds.
    """
    if config.trainer.resume_mode != "auto" or not (root / TRACKER_FILE).is_file():
        return []
    return [folder for folder in steps(root) if not missing_parts(folder, world_size(config))]


def freed(old: list[Path], written: int, keep: int | None) -> int:
    """Bytes of `old` (newest first) that are deleted before the new checkpoint number `written` is there."""
    if not keep or written == 1:
        return 0
    gone = old[max(0, keep - (written - 1)) :]
    return sum(f.stat().st_size for folder in gone for f in folder.rglob("*") if f.is_file())


def existing(path: Path) -> Path:
    """The path itself or its nearest parent that exists."""
    return next(p for p in (path, *path.parents) if p.exists())
