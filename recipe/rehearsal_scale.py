"""How a recipe is scaled down for its dress rehearsal. Pure: a flat configuration in, overrides out."""

from collections.abc import Mapping
from typing import Any

RESPONSE = 64  # tokens of L_max; everything that is counted in tokens of a response follows in proportion
PROMPT = 64  # tokens: holds an addition under any chat template
PROMPTS = 16  # a step, at least: as many as the step has updates
SAMPLES = 8  # a prompt, at most
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
SAMPLER = "trainer.v1.sampler.sampler_kwargs"
SCALED = (
    "data.max_prompt_length",
    "data.max_response_length",
    "data.train_batch_size",
    "reward.reward_kwargs.overlong_buffer_cfg.len",
    f"{ACTOR}.ppo_mini_batch_size",
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
    f"{ROLLOUT}.n",
    f"{ROLLOUT}.val_kwargs.n",
    f"{ROLLOUT}.max_model_len",
    f"{ROLLOUT}.max_num_batched_tokens",
    f"{SAMPLER}.bounds.max_generated",
    f"{SAMPLER}.max_in_flight",
    f"{SAMPLER}.chunk",
    "trainer.total_training_steps",
    "trainer.save_freq",
    "trainer.test_freq",
)


def scaled(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """New values of the `SCALED` keys that a recipe sets.

    Ratios that are kept: the overlong buffer to the longest response, updates to a step, prompts in flight, the bound
    and the chunk of the sampler to a batch, tokens of a micro-batch and of the engine's context to a whole sample.

    Args:
        recipe: flattened values of the recipe as it will run on its cluster.
    """
    prompt, response = recipe["data.max_prompt_length"], recipe["data.max_response_length"]
    batch = recipe["data.train_batch_size"]
    updates = batch // recipe[f"{ACTOR}.ppo_mini_batch_size"]
    prompts = updates * max(1, PROMPTS // updates)

    def of_batch(value: int) -> int:
        return max(1, round(value * prompts / batch))

    def of_sample(value: int) -> int:
        return max(PROMPT + RESPONSE, round(value * (PROMPT + RESPONSE) / (prompt + response)))

    values = {
        "data.max_prompt_length": PROMPT,
        "data.max_response_length": RESPONSE,
        "data.train_batch_size": prompts,
        "reward.reward_kwargs.overlong_buffer_cfg.len": _of(
            recipe,
            "reward.reward_kwargs.overlong_buffer_cfg.len",
            lambda tokens: max(1, round(tokens * RESPONSE / response)),
        ),
        f"{ACTOR}.ppo_mini_batch_size": prompts // updates,
        f"{ROLLOUT}.n": min(recipe[f"{ROLLOUT}.n"], SAMPLES),
        f"{ROLLOUT}.val_kwargs.n": min(recipe[f"{ROLLOUT}.val_kwargs.n"], SAMPLES),
        "trainer.total_training_steps": 2,
        "trainer.save_freq": 1,
        "trainer.test_freq": 2,
    }
    for key in (f"{ACTOR}.ppo_max_token_len_per_gpu", f"{ROLLOUT}.log_prob_max_token_len_per_gpu"):
        values[key] = _of(recipe, key, of_sample)
    for key in (f"{ROLLOUT}.max_model_len", f"{ROLLOUT}.max_num_batched_tokens"):
        values[key] = _of(recipe, key, of_sample)
    for key in (f"{SAMPLER}.bounds.max_generated", f"{SAMPLER}.max_in_flight", f"{SAMPLER}.chunk"):
        values[key] = _of(recipe, key, of_batch)
    sequences = recipe[f"{ROLLOUT}.max_num_seqs"]  # the engine refuses a batch of fewer tokens than sequences
    values[f"{ROLLOUT}.max_num_batched_tokens"] = max(values[f"{ROLLOUT}.max_num_batched_tokens"], sequences)
    return {key: value for key, value in values.items() if value is not None}


def _of(recipe: Mapping[str, Any], key: str, scale: Any) -> Any:
    """Scale a value that may be null, which stays as it is."""
    return None if recipe.get(key) is None else scale(recipe[key])
