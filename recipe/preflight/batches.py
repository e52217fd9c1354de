"""Batch arithmetic: the rules that verl asserts after the model is loaded, with the nearest value that would do."""

import math
from collections.abc import Iterator

from omegaconf import DictConfig

from recipe.checkpoints import world_size
from recipe.preflight.values import nearest_divisor


def mini_batch(config: DictConfig) -> Iterator[str]:
    """A step is a whole number of updates."""
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if mini > batch or batch % mini:
        yield (
            f"actor_rollout_ref.actor.ppo_mini_batch_size={mini} must divide data.train_batch_size={batch} (both count "
            f"prompts, not samples); nearest: {nearest_divisor(batch, mini)}"
        )


def shared_by_ranks(config: DictConfig) -> Iterator[str]:
    """The samples of an update are shared evenly by the data-parallel ranks."""
    mini, n = config.actor_rollout_ref.actor.ppo_mini_batch_size, config.actor_rollout_ref.rollout.n
    ranks = max(1, world_size(config) // config.actor_rollout_ref.actor.ulysses_sequence_parallel_size)
    if mini * n % ranks:
        step = ranks // math.gcd(ranks, n)
        yield (
            f"an update has ppo_mini_batch_size * rollout.n = {mini} * {n} samples, which {ranks} data-parallel ranks "
            f"cannot share evenly; use a multiple of {step}, such as {max(step, round(mini / step) * step)}"
        )


def group_size(config: DictConfig) -> Iterator[str]:
    """A group has samples to compare."""
    n = config.actor_rollout_ref.rollout.n
    if n < 2:
        yield f"actor_rollout_ref.rollout.n={n}: a group needs at least 2 samples for an advantage; the paper has 16"


def micro_batches(config: DictConfig) -> Iterator[str]:
    """The longest sequence fits into a dynamic micro-batch, which Ulysses ranks share."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    longest = config.data.max_prompt_length + config.data.max_response_length
    ulysses = actor.ulysses_sequence_parallel_size
    budgets = []
    if actor.use_dynamic_bsz:
        budgets.append(("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", actor.ppo_max_token_len_per_gpu))
    elif actor.ppo_micro_batch_size_per_gpu is None:
        yield (
            "actor_rollout_ref.actor.use_dynamic_bsz=false needs actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu; "
            "set it, or leave use_dynamic_bsz true"
        )
    if rollout.log_prob_use_dynamic_bsz:
        key = "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"
        budgets.append((key, rollout.log_prob_max_token_len_per_gpu))
    for key, tokens in budgets:
        if tokens * ulysses < longest:
            yield (
                f"{key}={tokens} times ulysses_sequence_parallel_size={ulysses} must hold the longest sequence, "
                f"max_prompt_length + max_response_length = {longest} tokens; use at least {-(-longest // ulysses)}"
            )
