"""What a run is, for the one that resumes it. Pure: no torch, no verl.

A checkpoint stores the identity of the run that wrote it. Steps, frequencies, loggers, names and log folders are no
part of it: they may change freely. Nor is the number of devices, which must not change for another reason: each rank
has a file of its own (`recipe.checkpoints`).
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from omegaconf import DictConfig, ListConfig, OmegaConf

from data_prep.card import card_path, sha256_of
from recipe.resolved import flatten

# Sections (every leaf of them) and single keys that decide what is learned.
LOAD_BEARING = (
    "seed",
    "answer_format",
    "algorithm",
    "overlong_filtering",
    "reward.reward_kwargs",
    "reward.reward_manager",
    "reward.custom_reward_function",
    *(f"data.{key}" for key in ("train_batch_size", "max_prompt_length", "max_response_length", "shuffle", "seed")),
    *(f"data.{key}" for key in ("train_max_samples", "filter_overlong_prompts", "apply_chat_template_kwargs")),
    "data.custom_cls",
    *(
        f"actor_rollout_ref.model.{key}"
        for key in (
            "override_config",
            "lora_rank",
            "lora_alpha",
            "lora_adapter_path",
            "target_modules",
            "exclude_modules",
        )
    ),
    *(
        f"actor_rollout_ref.actor.{key}"
        for key in (
            "ppo_mini_batch_size",
            "ppo_epochs",
            "clip_ratio",
            "clip_ratio_low",
            "clip_ratio_high",
            "clip_ratio_c",
            "loss_agg_mode",
            "policy_loss",
            "entropy_coeff",
            "use_kl_loss",
            "kl_loss_coef",
            "kl_loss_type",
            "optim",
            "fsdp_config.model_dtype",
            "fsdp_config.mixed_precision",
        )
    ),
    *(f"actor_rollout_ref.rollout.{key}" for key in ("n", "temperature", "top_p", "top_k", "do_sample")),
    "actor_rollout_ref.rollout.agent.default_agent_loop",
    "trainer.v1.sampler.custom_sampler",
    # the other bounds are what a run that has ended at one is told to change
    *(f"trainer.v1.sampler.sampler_kwargs.{key}" for key in ("filter", "surplus", "history", "bounds.give_up_after_s")),
)
# Leaves of those sections that do not: where it runs, how long, and what verl itself fills in.
FREE = ("optim.total_training_steps", "attn_implementation", "_target_")
_EDGE = 1 << 20  # bytes hashed at either end of a weight file


def identity(config: DictConfig) -> dict[str, Any]:
    """Return what a checkpoint stores of its run, JSON types only.

    `config`: load-bearing keys, flat; `data`: name, SHA-256, rows and card hash of each training file; `model`: path
    and digest of the base model; `loop`: the commands that make both in the laptop loop.
    """
    return {
        "config": load_bearing(config),
        "data": data_files(config),
        "model": model_identity(config),
        "loop": loop_commands(config),
    }


def loop_commands(config: DictConfig) -> dict[str, str]:
    """What `recipe.loop` makes data and base model with, `run_dir` left out, so that a folder may be moved."""
    commands = {}
    for key in ("data", "base_model", "warm_start"):
        value: Any = OmegaConf.to_container(config.loop, resolve=True)[key]  # type: ignore[call-overload, index]
        if isinstance(value, list):
            commands[f"loop.{key}"] = " ".join(map(str, value)).replace(str(config.run_dir), "RUN_DIR")
    return commands


def load_bearing(config: DictConfig) -> dict[str, Any]:
    """Return the load-bearing keys of a configuration, flat."""
    found: dict[str, Any] = {}
    for key in LOAD_BEARING:
        value = OmegaConf.select(config, key)
        if isinstance(value, (DictConfig, ListConfig)):
            value = OmegaConf.to_container(value, resolve=True)
        found |= flatten(value, f"{key}.")
    return {key: value for key, value in found.items() if value not in (None, {}) and not key.endswith(FREE)}


def file_list(value: Any) -> list[str]:
    """Return the paths of `data.train_files` or `data.val_files`, which may be one or a list."""
    return [os.path.expanduser(path) for path in ([value] if isinstance(value, str) else value)]


def data_files(config: DictConfig) -> list[dict[str, Any]]:
    """Name, rows, SHA-256 and card hash (None without a card) of each training file that is on this machine."""
    return [data_identity(path) for path in map(Path, file_list(config.data.train_files)) if path.is_file()]


def data_identity(path: Path) -> dict[str, Any]:
    """Identity of one parquet file."""
    card = card_path(path)
    return {
        "name": path.name,
        "rows": pq.read_metadata(path).num_rows,
        "sha256": file_sha256(path),
        "card_sha256": file_sha256(card) if card.is_file() else None,
    }


def file_sha256(path: Path) -> str:
    """SHA-256 of a file; computed once a process as long as its size and time stay."""
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    return sha256_of(path)


def model_identity(config: DictConfig) -> dict[str, str | None]:
    """Path of the base model and, for a folder, a digest of its configuration and weights."""
    name = str(config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser()
    return {"path": name, "digest": model_digest(folder) if (folder / "config.json").is_file() else None}


def model_digest(folder: Path) -> str:
    """Hash `config.json`, and of each weight file its name, size and first and last MiB: quick for any size."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")]):
        size = path.stat().st_size
        digest.update(f"\0{path.name}\0{size}\0".encode())
        with path.open("rb") as f:
            digest.update(f.read(_EDGE))
            f.seek(max(_EDGE, size - _EDGE))
            digest.update(f.read(_EDGE))
    return digest.hexdigest()
