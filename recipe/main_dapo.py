"""Trains a recipe: compose, check, stamp, then hand over to verl's V1 trainer.

    python -m recipe.main_dapo experiment=tiny technique=dapo cluster=cpu [key=value ...]

Exit code 2 and one line a problem for what a user can mend; a failure of the training itself keeps its traceback, and
its last line says where the same command goes on.
Hydra's own flags work as well: `--help`, `--cfg job`.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import hydra
from omegaconf import DictConfig, open_dict

from recipe.compose import CONFIG_DIR, CONFIG_NAME, compose, export_search_path, known_keys, with_cluster
from recipe.cpu.environment import cpu_environment
from recipe.cpu.prefork import prefork, suits
from recipe.endings import explained_ending
from recipe.errors import ConfigError, user_errors
from recipe.node_watch import JobNodes, ended_by_a_dead_node
from recipe.preflight import Result, preflight
from recipe.preflight.storage import trained_already
from recipe.preflight.values import problems as single_values
from recipe.scratch import scratch_folder
from recipe.stamps import Attempt, stamp
from recipe.tracking import always_to_file, tracking_environment


def environment(config: DictConfig, attempt: Attempt) -> dict[str, str]:
    """Environment variables of this run, for the driver and for every Ray process."""
    variables = {
        "VERL_FILE_LOGGER_PATH": str(Path(config.run_dir) / "metrics" / f"{attempt.number:03d}.jsonl"),
        "VERL_ENGINE_VENDOR": "dapo_recipe",  # recipe.live_engine, verl's FSDP engine that counts live sequences
    } | tracking_environment(config)
    if config.trainer.device == "cpu":
        variables |= cpu_environment(config.trainer.n_gpus_per_node, own_cluster=has_own_cluster(config))
    return variables


def has_own_cluster(config: DictConfig) -> bool:
    """Whether Ray runs on this machine for this run only."""
    return config.ray_kwargs.ray_init.get("address") == "local"


def settle_paths(config: DictConfig) -> None:
    """Make the paths that a recipe reads and writes absolute: Ray's workers have working directories of their own.

    Raises:
        ConfigError: a value is of the wrong kind; every such value is in the message.
    """
    if problems := single_values(config):
        raise ConfigError("this run cannot work:", problems)
    with open_dict(config):
        config.run_dir = _absolute(config.run_dir)
        if config.get("data_dir") is not None:
            config.data_dir = _absolute(config.data_dir)
        for key in ("train_files", "val_files"):
            value = config.data[key]
            config.data[key] = _absolute(value) if isinstance(value, str) else [_absolute(path) for path in value]
        config.trainer.default_local_dir = _absolute(config.trainer.default_local_dir)
        if config.trainer.resume_from_path is not None:
            config.trainer.resume_from_path = _absolute(str(config.trainer.resume_from_path))
        if Path(str(config.actor_rollout_ref.model.path)).expanduser().is_dir():  # otherwise a Hub name, or missing
            config.actor_rollout_ref.model.path = _absolute(config.actor_rollout_ref.model.path)


def _absolute(path: str) -> str:
    """An absolute local path; addresses such as hdfs://... stay."""
    return path if "://" in path else str(Path(path).expanduser().resolve())


def start(config: DictConfig, plan: list[str]) -> None:
    """Stamp the run's folder and train, without a check of the recipe; its paths are settled."""
    attempt = stamp(config, Path(config.run_dir), plan)
    with scratch_folder(attempt.folder / "ray_logs") if has_own_cluster(config) else nullcontext() as folder:
        run(config, attempt, folder)


def run(config: DictConfig, attempt: Attempt, scratch: Path | None) -> None:
    """Start verl with our task runner. Imports verl, which takes seconds: everything cheap comes before."""
    (Path(config.run_dir) / "metrics").mkdir(parents=True, exist_ok=True)
    variables = environment(config, attempt)
    os.environ.update(variables)
    runtime_env = config.ray_kwargs.ray_init.runtime_env
    with open_dict(config):
        runtime_env.env_vars = {**(runtime_env.get("env_vars") or {}), **variables}
    if scratch is None or config.trainer.device != "cpu" or not suits(runtime_env):
        return train_with_verl(config)
    with prefork(scratch, runtime_env.env_vars) as python:
        if python is not None:
            runtime_env.py_executable = shlex.quote(python)
        train_with_verl(config)


def train_with_verl(config: DictConfig) -> None:
    """Import verl, let it check the recipe, and train."""
    from verl.trainer.main_ppo import run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.device import auto_set_device

    from recipe.task_runner import DAPOTaskRunner

    auto_set_device(config)
    with _verl_refuses():
        validate_config(config, need_reference_policy(config), need_critic(config))
    with ended_by_a_dead_node(JobNodes()) if config.trainer.nnodes > 1 else nullcontext():
        run_ppo(config, DAPOTaskRunner)


@contextmanager
def _verl_refuses() -> Iterator[None]:
    """What verl's own validation finds wrong is the user's to mend as well."""
    try:
        yield
    except (ValueError, AssertionError) as error:
        raise ConfigError("verl refuses this recipe:", [str(error) or repr(error)]) from error


def checked(config: DictConfig) -> Result:
    """Run the preflight and return it.

    Raises:
        ConfigError: something stops the run; every problem is in the message.
    """
    result = preflight(config)
    if result.problems:
        raise ConfigError("this run cannot work:", result.problems)
    return result


def train(config: DictConfig) -> None:
    """Check a composed recipe, say the plan, stamp the run's folder and train."""
    settle_paths(config)
    always_to_file(config)
    result = checked(config)
    print(*result.plan, *(f"note        {note}" for note in result.notes), sep="\n", flush=True)
    done = trained_already(config)
    if done is not None and not config.trainer.val_only:
        print(f"{done} holds all {config.trainer.total_training_steps} steps: nothing left to train", flush=True)
        return
    with explained_ending(config):
        start(config, result.plan)


@hydra.main(config_path=str(CONFIG_DIR), config_name=CONFIG_NAME, version_base="1.3")
def _with_hydra_flags(config: DictConfig) -> None:
    train(config)


def _is_override(word: str) -> bool:
    return word.startswith("~") or ("=" in word and not word.startswith("-"))


def main() -> None:
    """Entry point."""
    export_search_path()
    overrides = with_cluster(sys.argv[1:])
    with user_errors(known_keys):
        if any(word.startswith("-") for word in overrides):
            os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors to us
            sys.argv[1:] = sorted(overrides, key=_is_override)  # its parser wants the overrides side by side
            _with_hydra_flags()
        else:
            train(compose(overrides))


if __name__ == "__main__":
    main()
