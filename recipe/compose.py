"""Composes a recipe from `configs/` on top of the installed verl's own configuration, in about half a second."""

import importlib.util
import os
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from recipe.cpu.detect import accelerator_visible
from recipe.errors import ConfigError

CONFIG_DIR = Path(__file__).resolve().parents[1] / "configs"
CONFIG_NAME = "dapo_trainer"
GROUPS = ("experiment", "technique", "cluster", "health")  # folders of `configs/` that a word chooses from


def verl_package_dir() -> Path:
    """Folder of the installed verl, found without importing it (which costs seconds).

    Raises:
        ModuleNotFoundError: verl is not installed.
    """
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("verl is not installed in this environment: run scripts/setup.sh")
    return Path(spec.submodule_search_locations[0])


def verl_config_dir() -> Path:
    """Folder of verl's own YAML files; raises as `verl_package_dir`."""
    return verl_package_dir() / "trainer" / "config"


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

    Raises:
        ConfigError: a section is replaced by a value, which Hydra takes for files to compose.
    """
    export_search_path()
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        try:
            return hydra_compose(CONFIG_NAME, overrides=with_cluster(overrides))
        except (ValueError, TypeError, AttributeError) as error:
            headline = "these words cannot be composed; set keys inside a section, such as data.seed=1:"
            raise ConfigError(headline, [" ".join(str(error).split())]) from error


def known_keys() -> list[str]:
    """Every dotted key of the default recipe, sections and groups included, for suggestions."""
    found: list[str] = list(GROUPS)

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.items():
            found.append(f"{prefix}{key}")
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")

    walk(OmegaConf.to_container(compose(["cluster=cpu"])), "")
    return found
