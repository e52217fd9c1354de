"""Rules about the laptop loop around a training."""

from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf


def needs(config: DictConfig) -> Iterator[str]:
    """What the laptop loop needs beyond the training: a checkpoint to export, one file each, its own commands."""
    if config.trainer.save_freq < 1:
        yield (
            f"trainer.save_freq={config.trainer.save_freq} saves no checkpoint, and the loop exports the last one; set "
            "it to 1 or more steps"
        )
    for key in ("train_files", "val_files"):
        if not isinstance(config.data[key], str):
            yield (
                f"data.{key}={list(config.data[key])}: the loop prepares and evaluates one file; give one path, or "
                "train on several with python -m recipe.main_dapo"
            )
    for key in ("data", "evaluation"):
        if OmegaConf.is_missing(config.loop, key):
            yield (
                f"loop.{key} is not set: experiment={config.recipe.experiment} is no loop of its own; prepare data and "
                "evaluate by hand and train with python -m recipe.main_dapo, or set it"
            )
    if config.loop.warm_start is not None and config.loop.pretrained is None:
        yield "loop.warm_start is set, but not loop.pretrained, the folder of the model that it starts from"


def makes(config: DictConfig) -> Iterator[str]:
    """Notes on what is not there yet because the loop makes it."""
    keys = ["data.train_files", "data.val_files"]
    if config.loop.base_model is not None or config.loop.warm_start is not None:
        keys.append("actor_rollout_ref.model.path")
    missing = [f"{key}={path}" for key in keys if not Path(str(path := OmegaConf.select(config, key))).exists()]
    if missing:
        yield f"not there yet, the loop makes it: {', '.join(missing)}"
