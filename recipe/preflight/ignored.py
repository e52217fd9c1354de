"""Keys that compose and then do nothing in verl 0.9.1, each with what replaces it."""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipe.run_identity import flat

# Sections of old scripts -> where their keys live now.
_MOVED = {
    "reward_model": "reward.reward_model, reward.reward_manager and reward.num_workers",
    "custom_reward_function": "reward.custom_reward_function",
    "sandbox_fusion": "reward.sandbox_fusion",
}
_GONE = {
    "trainer.use_legacy_worker_impl": "nothing: verl 0.9.1 has one implementation; drop it",
    "trainer.remove_previous_ckpt_in_save": "trainer.max_actor_ckpt_to_keep=1",
    "data.max_num_gen_batches": "trainer.v1.sampler.sampler_kwargs.bounds.max_passes",
}
_DEFAULT_GRAD_CLIP = 1.0
_OUR_SAMPLER = "pkg://recipe.dynamic_sampling"


def moved_sections(config: DictConfig) -> Iterator[str]:
    """Nothing stands in the sections of older verl."""
    for section, new in _MOVED.items():
        node = OmegaConf.select(config, section)
        values: Any = OmegaConf.to_container(node, resolve=True) if node is not None else {}
        for key, value in flat(values, section).items():
            if value is None or value == {}:
                continue
            if key.startswith("reward_model.overlong_buffer"):
                new = "reward.reward_kwargs.overlong_buffer_cfg.{enable,len,penalty_factor}"
            yield f"{key}={value} is not read by verl 0.9.1; use {new}"


def gone_keys(config: DictConfig) -> Iterator[str]:
    """No single key is set that nobody reads."""
    for key, new in _GONE.items():
        if (value := OmegaConf.select(config, key)) is not None:
            yield f"{key}={value} is not read by this recipe on verl 0.9.1; use {new}"
    clip = config.actor_rollout_ref.actor.grad_clip
    if clip != _DEFAULT_GRAD_CLIP:
        yield (
            f"actor_rollout_ref.actor.grad_clip={clip} is not read by verl 0.9.1's FSDP engine; use "
            "actor_rollout_ref.actor.optim.clip_grad"
        )


def generation_limit(config: DictConfig) -> Iterator[str]:
    """`max_num_gen_batches` bounds nothing any more."""
    value = OmegaConf.select(config, "algorithm.filter_groups.max_num_gen_batches", default=0)
    if value and value > 0:
        yield (
            f"algorithm.filter_groups.max_num_gen_batches={value} is ignored: verl 0.9.1 only warns and generates for "
            "ever; use trainer.v1.sampler.sampler_kwargs.bounds.max_generated (prompts a step) or .max_passes (passes "
            "over the data a step), with recipe.dynamic_sampling as custom_sampler"
        )


def unbounded_sampler(config: DictConfig) -> Iterator[str]:
    """Dynamic sampling has a sampler that gives up."""
    path = config.trainer.v1.sampler.custom_sampler.path
    if config.algorithm.filter_groups.enable and path is None:
        yield (
            "trainer.v1.sampler.custom_sampler.path=null: verl's built-in sampler never gives up on data that is too "
            f"hard or too easy; use {_OUR_SAMPLER}"
        )


def generation_batch(config: DictConfig) -> Iterator[str]:
    """`gen_batch_size` sizes nothing with dynamic sampling."""
    value = config.data.get("gen_batch_size")
    refill = config.trainer.v1.sampler.get("sync_refill_failed_groups", False)
    if value not in (None, 1) and (config.algorithm.filter_groups.enable or refill):
        yield (
            f"data.gen_batch_size={value} is overridden to 1 by verl 0.9.1 with dynamic sampling; what is in flight is "
            "trainer.v1.sampler.sampler_kwargs.max_in_flight (prompts) and .chunk (prompts a dispatch)"
        )
