"""Keys that verl 0.9.1, or our reward manager, composes and then ignores, and what replaces them. No torch, no verl.

Old scripts and posts still set them; the run would start and silently be another one than intended.
"""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Key: (the value that means "not set", what to do instead).
REPLACEMENTS: dict[str, tuple[Any, str]] = {
    "algorithm.filter_groups.max_num_gen_batches": (
        0,
        "it only logs a warning; bound a step with trainer.v1.sampler.sampler_kwargs.bounds.max_generated (prompts)",
    ),
    "algorithm.filter_groups.max_inflight_gen_batches": (
        1,
        "the sampler of this recipe does not read it; set trainer.v1.sampler.sampler_kwargs.max_in_flight (prompts)",
    ),
    "actor_rollout_ref.actor.grad_clip": (1.0, "the FSDP engine reads actor_rollout_ref.actor.optim.clip_grad"),
    "actor_rollout_ref.nccl_timeout": (600, "no worker reads it"),
    "trainer.balance_batch": (True, "verl's V1 trainer always balances tokens over ranks"),
    "data.reward_fn_key": ("data_source", "verl's V1 trainer reads the column data_source, whatever this says"),
}
OUR_MANAGER = "pkg://reward.manager"
# Sections of older versions, all of whose keys are null unless somebody set them.
LEGACY = {
    "reward_model.overlong_buffer": "reward.reward_kwargs.overlong_buffer_cfg.{enable,len,penalty_factor,log}",
    "reward_model.reward_kwargs": "reward.reward_kwargs",
    "reward_model.reward_manager": "reward.reward_manager.{source,name,module.path}",
    "reward_model": "reward.*",
    "custom_reward_function": "reward.reward_manager.{source,name,module.path}",
    "sandbox_fusion": "reward.sandbox_fusion",
}


def ignored_keys(config: DictConfig) -> list[str]:
    """One sentence for each key of a composed configuration that is set and that nothing would read."""
    return [*_replaced(config), *_legacy(config), *_gen_batch_size(config), *_reward_function(config)]


def _replaced(config: DictConfig) -> Iterator[str]:
    for key, (unset, remedy) in REPLACEMENTS.items():
        value = OmegaConf.select(config, key)
        if value is not None and value != unset:
            yield f"{key}={value} is ignored by verl 0.9.1: {remedy}"


def _legacy(config: DictConfig) -> Iterator[str]:
    for key, value in _leaves(config):
        for prefix, replacement in LEGACY.items():
            if key == prefix or key.startswith(prefix + "."):
                if value is not None:
                    yield f"{key}={value} is ignored by verl 0.9.1: use {replacement}"
                break


def _leaves(config: DictConfig) -> Iterator[tuple[str, Any]]:
    for root in ("reward_model", "custom_reward_function", "sandbox_fusion"):
        if root in config:
            yield from _walk(OmegaConf.to_container(config[root], resolve=True), root)


def _walk(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(node, dict):
        yield path, node
        return
    for name, child in node.items():
        yield from _walk(child, f"{path}.{name}")


def _gen_batch_size(config: DictConfig) -> Iterator[str]:
    size = OmegaConf.select(config, "data.gen_batch_size")
    if size not in (None, 1):
        yield (
            f"data.gen_batch_size={size} is overridden to 1, for prompts are sent one by one as the batch needs them: "
            "leave it null; trainer.v1.sampler.sampler_kwargs.max_in_flight and bounds.max_generated bound the sending"
        )


def _reward_function(config: DictConfig) -> Iterator[str]:
    """verl hands the function to the reward manager, and those of verl's own call it; ours grades by itself."""
    path = OmegaConf.select(config, "reward.custom_reward_function.path")
    manager = OmegaConf.select(config, "reward.reward_manager.module.path")
    ours = OmegaConf.select(config, "reward.reward_manager.source") == "importlib" and manager == OUR_MANAGER
    if path is not None and ours:
        yield (
            f"reward.custom_reward_function.path={path} is ignored by reward.reward_manager.module.path={manager}, "
            "which grades by itself (reward.reward_kwargs.mode); use a manager of verl's that calls it, such as "
            "reward.reward_manager.source=register reward.reward_manager.name=dapo, or name a manager of your own"
        )
