"""Composes a recipe from `configs/` on top of the installed verl's own configuration, in about half a second."""

import importlib.util
import os
from pathlib import Path

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import DictConfig

from recipe.cpu.detect import accelerator_visible

CONFIG_DIR = Path(__file__).resolve().parents[1] / "configs"
CONFIG_NAME = "dapo_trainer"


def verl_config_dir() -> Path:
    """Folder of verl's own YAML files, found without importing verl (which costs seconds).

    Raises:
        ModuleNotFoundError: verl is not installed.
    """
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("verl is not installed in this environment: run scripts/setup.sh")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


def export_search_path() -> None:
    """Put verl's configs on Hydra's search path, which `configs/dapo_trainer.yaml` reads from the environment."""
    os.environ["VERL_CONFIG_DIR"] = str(verl_config_dir())


def with_cluster(overrides: list[str]) -> list[str]:
    """Add the cluster when none is named: `cpu` where no accelerator is visible, otherwise `single_node`."""
    if any(override.lstrip("+").startswith("cluster=") for override in overrides):
        return overrides
    return [*overrides, f"cluster={'single_node' if accelerator_visible() else 'cpu'}"]


def compose(overrides: list[str]) -> DictConfig:
    """Compose a recipe as the command line would.

    Args:
        overrides: Hydra overrides such as `experiment=tiny` or `trainer.total_training_steps=4`.

    Returns:
        The unresolved configuration.
    """
    export_search_path()
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        return hydra_compose(CONFIG_NAME, overrides=with_cluster(overrides))
