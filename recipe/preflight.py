"""Checks of a recipe and of the machine before anything expensive starts. Pure: no torch, no verl, no Ray.

Every check returns its problems as sentences that name key, value and remedy; all are reported at once.
"""

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from omegaconf import DictConfig, OmegaConf

from recipe.acceptance import AcceptanceEstimate
from recipe.sampler_settings import SamplerSettings
from reward.gold import check_parquet
from reward.settings import RewardSettings

_GB = 1e9
_CPU_MEMORY_GB = 10.0  # peak of the tiny recipe over all processes, measured, rounded up
_CPU_DISK_GB = 2.0
_SHM_GB = 0.7  # Ray's object store and one weight bucket


def check_recipe(config: DictConfig) -> list[str]:
    """Problems of the configuration itself."""
    if problems := list(_whole_numbers(config)):
        return problems  # the other checks count with these
    checks = (_batches, _lengths, _sampling, _filter, _sampler, _reward, _overlong_methods)
    return [problem for check in checks for problem in check(config)]


def check_inputs(config: DictConfig) -> list[str]:
    """Problems of the files that a training reads: data and model."""
    return [*_data_files(config), *check_model(config)]


def check_loop(config: DictConfig) -> list[str]:
    """Problems of what the laptop loop needs beyond the training."""
    if config.trainer.save_freq < 1:
        return [
            f"trainer.save_freq={config.trainer.save_freq} saves no checkpoint, and the loop exports the last one; set "
            "it to 1 or more steps"
        ]
    return []


def _data_files(config: DictConfig) -> Iterator[str]:
    for key in ("train_files", "val_files"):
        value = config.data[key]
        for path in [value] if isinstance(value, str) else value:
            if not Path(path).expanduser().is_file():
                yield f"data.{key}={path} is missing: write it with python -m data_prep.prepare, or name another file"
                continue
            try:
                check_parquet(str(Path(path).expanduser()))
            except (ValueError, OSError) as error:  # a bad gold, or no parquet at all
                yield f"data.{key}: {error}"


def check_model(config: DictConfig) -> list[str]:
    """Problems of the model folder; a Hub name is left to verl."""
    name = config.actor_rollout_ref.model.path
    folder = Path(name).expanduser()
    looks_local = folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
    if folder.is_dir() and not (folder / "config.json").is_file():
        return [f"actor_rollout_ref.model.path={name} has no config.json: it is not a Hugging Face model folder"]
    if looks_local and not folder.is_dir():
        return [f"actor_rollout_ref.model.path={name} is missing: give a model folder, or a Hub name such as org/model"]
    return []


def check_machine(config: DictConfig) -> list[str]:
    """Problems of this machine for a CPU run: memory, disk, shared memory."""
    if config.trainer.device != "cpu":
        return []
    run_dir = Path(config.run_dir)
    existing = next(p for p in (run_dir, *run_dir.parents) if p.exists())
    shm = Path("/dev/shm")
    found = [
        ("memory", psutil.virtual_memory().available, _CPU_MEMORY_GB, "close other programs or use a larger machine"),
        (f"disk space at {existing}", shutil.disk_usage(existing).free, _CPU_DISK_GB, "free some, or set run_dir"),
    ]
    if shm.is_dir():
        found.append(("shared memory in /dev/shm", shutil.disk_usage(shm).free, _SHM_GB, "remove old segments there"))
    problems = [
        f"{what}: {free / _GB:.1f} GB free, about {needed:.1f} GB needed; {remedy}"
        for what, free, needed, remedy in found
        if free < needed * _GB
    ]
    if not os.access(existing, os.W_OK):
        problems.append(f"run_dir={run_dir}: {existing} is not writable; set run_dir to a folder of yours")
    return problems


_COUNTS = (
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.rollout.n",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    "trainer.total_training_steps",
)


def _whole_numbers(config: DictConfig) -> Iterator[str]:
    for key in _COUNTS:
        value = OmegaConf.select(config, key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            yield f"{key}={value} must be a whole number of at least 1"
    if not isinstance(config.seed, int):
        yield f"seed={config.seed} must be a whole number"


def _sampler(config: DictConfig) -> Iterator[str]:
    kwargs: Any = OmegaConf.to_container(config.trainer.v1.sampler.sampler_kwargs, resolve=True)
    kwargs["filter"]["force"] = True  # the metric has a check of its own
    try:
        SamplerSettings.from_kwargs(kwargs).controller(AcceptanceEstimate(), rows=1, now=0.0)
    except (ValueError, TypeError) as error:
        yield f"trainer.v1.sampler.sampler_kwargs: {error}"


def _reward(config: DictConfig) -> Iterator[str]:
    kwargs: Any = OmegaConf.to_container(config.reward.reward_kwargs, resolve=True)
    kwargs["overlong_buffer_cfg"]["enable"] = False  # its length has a check of its own
    try:
        RewardSettings.from_kwargs(kwargs)
    except (ValueError, TypeError) as error:
        yield f"reward.reward_kwargs: {error}"


def _batches(config: DictConfig) -> Iterator[str]:
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    n = config.actor_rollout_ref.rollout.n
    ranks = config.trainer.nnodes * config.trainer.n_gpus_per_node
    ranks //= config.actor_rollout_ref.actor.get("ulysses_sequence_parallel_size", 1)
    if mini > batch or batch % mini:
        yield (
            f"actor_rollout_ref.actor.ppo_mini_batch_size={mini} must divide data.train_batch_size={batch} (both count "
            f"prompts); nearest: {_nearest_divisor(batch, mini)}"
        )
    if mini * n % ranks:
        step = ranks // math.gcd(ranks, n)
        yield (
            f"an update has ppo_mini_batch_size * rollout.n = {mini} * {n} samples, which {ranks} data-parallel ranks "
            f"cannot share evenly; use a multiple of {step}, such as {max(step, round(mini / step) * step)}"
        )
    if n < 2:
        yield f"actor_rollout_ref.rollout.n={n}: a group needs at least 2 samples for an advantage; the paper has 16"


def _nearest_divisor(batch: int, mini: int) -> int:
    return min((d for d in range(1, batch + 1) if batch % d == 0), key=lambda d: abs(d - mini))


def _lengths(config: DictConfig) -> Iterator[str]:
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    window = config.actor_rollout_ref.rollout.get("max_model_len")
    if window is not None and window < prompt + response:
        yield (
            f"actor_rollout_ref.rollout.max_model_len={window} is less than max_prompt_length + max_response_length = "
            f"{prompt} + {response}: answers would be cut early and the overlong punishment never fire"
        )
    buffer = config.reward.reward_kwargs.overlong_buffer_cfg
    if buffer.enable and not 0 < buffer.len < response:
        yield (
            f"reward.reward_kwargs.overlong_buffer_cfg.len={buffer.len} must lie between 0 and "
            f"data.max_response_length={response}; the paper has 4096 of 20480"
        )


def _overlong_methods(config: DictConfig) -> Iterator[str]:
    filtering = config.overlong_filtering
    if not filtering.enable:
        return
    if config.reward.reward_kwargs.overlong_buffer_cfg.enable and not filtering.force:
        yield (
            "overlong_filtering.enable=true together with reward.reward_kwargs.overlong_buffer_cfg.enable=true: the "
            "paper has one or the other, and a masked sample's punishment would only shift its group's mean; switch "
            "one off, or set overlong_filtering.force=true"
        )
    loss_mode = config.actor_rollout_ref.actor.policy_loss.loss_mode
    if loss_mode != "dapo":
        yield (
            f"overlong_filtering.enable=true with actor_rollout_ref.actor.policy_loss.loss_mode={loss_mode}: only dapo "
            "takes masked samples out of every denominator; use it"
        )
    if config.actor_rollout_ref.rollout.agent.default_agent_loop == "single_turn_agent":
        yield (
            "overlong_filtering.enable=true with actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent, "
            "which masks nothing; use dapo_single_turn"
        )


def _sampling(config: DictConfig) -> Iterator[str]:
    rollout = config.actor_rollout_ref.rollout
    for key, value in (("temperature", 1.0), ("top_p", 1.0), ("top_k", -1)):
        if rollout[key] != value:
            yield (
                f"actor_rollout_ref.rollout.{key}={rollout[key]} biases the importance ratio: training needs {value}; "
                "evaluation settings belong under val_kwargs"
            )


def _filter(config: DictConfig) -> Iterator[str]:
    group_filter = config.trainer.v1.sampler.sampler_kwargs.filter
    shaped = config.reward.reward_kwargs.overlong_buffer_cfg.enable
    if group_filter.enable and group_filter.metric != "acc" and shaped and not group_filter.force:
        yield (
            f"algorithm.filter_groups.metric={group_filter.metric} contains the overlong penalty, so groups without a "
            "right answer would train; use acc"
        )
    if not config.trainer.use_v1:
        yield "trainer.use_v1=false: verl's old trainer ignores the group filter without a word; leave it true"
