"""Trains a recipe: compose, check, then hand over to verl's V1 trainer.

python -m recipe.main_dapo experiment=tiny technique=dapo cluster=cpu [key=value ...]
"""

import os
import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig, open_dict

from recipe.compose import CONFIG_DIR, CONFIG_NAME, export_search_path, with_cluster
from recipe.cpu.detect import accelerator_visible
from recipe.cpu.environment import cpu_environment
from recipe.preflight import check_inputs, check_recipe
from recipe.stamps import stamp
from recipe.tracking import always_to_file, check_tracking, tracking_environment


def environment(config: DictConfig) -> dict[str, str]:
    """Environment variables of this run, for the driver and for every Ray process."""
    run_dir = Path(config.run_dir)
    attempts = len(list((run_dir / "metrics").glob("*.jsonl"))) if (run_dir / "metrics").is_dir() else 0
    variables = {
        "VERL_FILE_LOGGER_PATH": str(run_dir / "metrics" / f"{attempts:03d}.jsonl"),
        "VERL_ENGINE_VENDOR": "dapo_recipe",  # recipe.live_engine, verl's FSDP engine that counts live sequences
    } | tracking_environment(config)
    if config.trainer.device == "cpu":
        variables |= cpu_environment(config.trainer.n_gpus_per_node)
    return variables


def settle_paths(config: DictConfig) -> None:
    """Make `run_dir` absolute: Ray's workers have working directories of their own."""
    with open_dict(config):
        config.run_dir = str(Path(config.run_dir).expanduser().resolve())


def run(config: DictConfig) -> None:
    """Start verl with our task runner. Imports verl, which takes seconds: everything cheap comes before."""
    (Path(config.run_dir) / "metrics").mkdir(parents=True, exist_ok=True)
    variables = environment(config)
    os.environ.update(variables)
    with open_dict(config):
        ray_init = config.ray_kwargs.ray_init
        ray_init.runtime_env.env_vars = {**(ray_init.runtime_env.get("env_vars") or {}), **variables}

    from verl.trainer.main_ppo import run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.device import auto_set_device

    from recipe.task_runner import DAPOTaskRunner

    auto_set_device(config)
    validate_config(config, need_reference_policy(config), need_critic(config))
    run_ppo(config, DAPOTaskRunner)


def check_device(config: DictConfig) -> None:
    """Refuse a recipe for accelerators where none is visible, and the other way round."""
    if config.trainer.device == "cpu" and accelerator_visible():
        raise ValueError("cluster=cpu, but an accelerator is visible: use another cluster, or CUDA_VISIBLE_DEVICES=''")


@hydra.main(config_path=str(CONFIG_DIR), config_name=CONFIG_NAME, version_base="1.3")
def _main(config: DictConfig) -> None:
    check_device(config)
    settle_paths(config)
    always_to_file(config)
    if problems := check_recipe(config) + check_inputs(config) + check_tracking(config):
        raise ValueError("\n  ".join(["this recipe cannot work:", *problems]))
    stamp(config, Path(config.run_dir))
    run(config)


def main() -> None:
    """Entry point; errors that the user can mend end in one line."""
    export_search_path()
    sys.argv[1:] = with_cluster(sys.argv[1:])
    try:
        _main()
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
