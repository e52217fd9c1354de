"""Counts that every other rule calculates with, checked first."""

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from recipe.preflight.kinds import kinds, sections

_COUNTS = (
    "data.train_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_epochs",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
    "actor_rollout_ref.rollout.val_kwargs.n",
    "trainer.nnodes",
    "trainer.n_gpus_per_node",
    "trainer.total_epochs",
)
_FREQUENCIES = ("trainer.save_freq", "trainer.test_freq")
_OWN_RULE = frozenset({*_COUNTS, *_FREQUENCIES, "trainer.total_training_steps", "seed"})


def problems(config: DictConfig) -> list[str]:
    """What is wrong with single values. While there is something, no other rule can be asked: they calculate."""
    return sections(config) or [*kinds(config, _OWN_RULE), *whole_numbers(config)]


def whole_numbers(config: DictConfig) -> Iterator[str]:
    """Counts are whole numbers of at least 1; without them no other rule can be asked."""
    for key in _COUNTS:
        value = OmegaConf.select(config, key)
        if not _whole(value) or value < 1:
            yield f"{key}={value} must be a whole number of at least 1"
    steps = config.trainer.total_training_steps
    if not _whole(steps) or steps < 1:
        yield (
            f"trainer.total_training_steps={steps} must be a whole number of at least 1: epochs would change the "
            "length of the run with the rows of the data (1.79 M rows are 3,496 steps of 512 prompts, their 17 k "
            "problems 33)"
        )
    for key in _FREQUENCIES:
        if not _whole(value := OmegaConf.select(config, key)):
            yield f"{key}={value} must be a whole number of steps; -1 is never"
    if not isinstance(config.seed, int):
        yield f"seed={config.seed} must be a whole number"


def nearest_divisor(total: int, wanted: int) -> int:
    """The divisor of `total` that is nearest to what somebody wanted."""
    return min((d for d in range(1, total + 1) if total % d == 0), key=lambda d: abs(d - wanted))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
