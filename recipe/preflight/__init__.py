"""Checks of a recipe, its inputs and the machine before anything expensive starts. Pure: no torch, no verl, no Ray.

Every rule is a small function that yields its problems as sentences with key, value and remedy; the lists below hold
them all, and all problems are reported at once. A rule of your own is one function and one entry.

    python -m recipe.preflight experiment=qwen2.5_32b technique=dapo cluster=multi_node
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from omegaconf import DictConfig

from recipe.ignored_keys import ignored_keys
from recipe.preflight import (
    batches,
    data,
    health,
    known,
    loop,
    machine,
    memory,
    model,
    model_facts,
    parallel,
    plan,
    plugins,
    secrets,
    storage,
    technique,
    values,
)
from recipe.tracking import installed_backends, known_backends

Rule = Callable[[DictConfig], Iterable[str]]

RECIPE_RULES: tuple[Rule, ...] = (
    known.names,
    known.registered,
    known.ranges,
    batches.mini_batch,
    batches.shared_by_ranks,
    batches.group_size,
    batches.micro_batches,
    technique.rollout_sampling,
    technique.validation_sampling,
    technique.probabilities,
    technique.filter_metric,
    technique.trainer_version,
    technique.unbounded_sampler,
    technique.sampler_settings,
    technique.reward_settings,
    technique.overlong_punishment,
    technique.overlong_methods,
    technique.window,
    technique.loss,
    technique.name_holds,
    technique.kl_and_reward_model,
    ignored_keys,
    parallel.sizes_divide_devices,
    parallel.ulysses,
    parallel.cluster,
    plugins.modules,
    plugins.reward_manager,
    plugins.seed,
    storage.kept,
    storage.contents,
    storage.resume_mode,
    known_backends,
    health.thresholds_are_numbers,
    secrets.none_in_configuration,
)


@dataclass(frozen=True)
class Result:
    """What the preflight found: `problems` stop a run, `notes` do not; `plan` is for people."""

    problems: list[str]
    notes: list[str]
    plan: list[str]


def check_recipe(config: DictConfig) -> list[str]:
    """Problems of the configuration itself, on any machine."""
    if problems := values.problems(config):
        return problems  # the other rules calculate with these
    problems = [problem for rule in RECIPE_RULES for problem in rule(config)]
    try:
        facts = model_facts.model_facts(config)
    except ValueError:  # a broken model folder is a problem of the inputs
        return problems
    if facts is not None:
        problems += [problem for rule in model.RULES for problem in rule(config, facts)] + memory.fits(config, facts)
    return problems


def check_inputs(config: DictConfig) -> list[str]:
    """Problems of the files that a training reads: data, model, checkpoints."""
    found = data.Data(config)
    problems = [*found.problems, *(problem for rule in data.RULES for problem in rule(config, found))]
    problems += plugins.data_sources(config, found)
    problems += check_model(config)
    return [*problems, *storage.resumable(config)]


def check_model(config: DictConfig) -> list[str]:
    """Problems of the model folder; of a Hub name, whether it can be had and brings code of its own."""
    problems = [*model.folder_exists(config), *model.whole_folder(config), *model.no_code_of_its_own(config)]
    try:
        model_facts.model_facts(config)
    except ValueError as error:
        problems.append(f"actor_rollout_ref.model.path: {error}")
    return problems


def check_machine(config: DictConfig) -> list[str]:
    """Problems of this machine: device, run folder, memory and disk."""
    return [problem for rule in (*machine.RULES, installed_backends) for problem in rule(config)]


def check_storage(config: DictConfig) -> list[str]:
    """Problems of the disk that checkpoints go to."""
    try:
        facts = model_facts.model_facts(config)
    except ValueError:
        facts = None
    return [*storage.shared_disk(config), *storage.disk_space(config, facts)]


def check_changed_settings(config: DictConfig) -> list[str]:
    """Problems of resuming with other settings, as far as they are known before data and base model are made."""
    return list(storage.changed_settings(config))


def check_loop(config: DictConfig) -> list[str]:
    """Problems of what the laptop loop needs beyond the training."""
    return list(loop.needs(config))


def check_before_loop(config: DictConfig) -> list[str]:
    """Problems of the files that a loop finds; those that it makes are checked by the training that reads them."""
    return check_changed_settings(config) + (check_model(config) if config.loop.base_model is None else [])


def preflight(config: DictConfig, recipe_only: bool = False, in_loop: bool = False) -> Result:
    """Check everything and describe the run.

    Args:
        config: a composed recipe, `run_dir` absolute.
        recipe_only: leave out what depends on this machine, for a recipe that will run elsewhere.
        in_loop: for `recipe.loop`, which makes data and base model itself.

    Raises:
        OmegaConfBaseException: the configuration cannot be resolved, such as a key without a value.
    """
    if problems := values.problems(config):
        return Result(problems, [], [])
    problems = check_recipe(config)
    found = data.Data(config)
    if in_loop:
        problems += check_loop(config)
    if not recipe_only:
        problems += check_before_loop(config) if in_loop else check_inputs(config)
        problems += check_machine(config) + check_storage(config)
    try:
        facts = model_facts.model_facts(config)
    except ValueError:
        facts = None
    said = notes(config, found, facts)
    if not recipe_only:
        said += storage.model_on_every_node(config)
        said += model.code_not_looked_at(config) if not in_loop or config.loop.base_model is None else []
    said += loop.makes(config) if in_loop else []
    return Result(problems, said, plan.plan(config, facts, found))


def notes(config: DictConfig, found: data.Data, facts: model_facts.ModelFacts | None) -> list[str]:
    """What a user should know and may accept."""
    said = [*data.notes(config, found)]
    if plan.updates_per_step(config) == 1:
        said.append(
            "one update a step: the ratio is 1 everywhere, so clip_ratio_low and clip_ratio_high do nothing; lower "
            "ppo_mini_batch_size for more updates"
        )
    val, train = plan.validation_tokens(config, found), plan.tokens_per_step(config) * config.trainer.test_freq
    if val is not None and val > train > 0:
        said.append(
            f"a validation generates up to {val:,} tokens, the {config.trainer.test_freq} steps between two of them "
            f"{train:,}: it will look stuck; raise trainer.test_freq, or lower data.val_max_samples or "
            "actor_rollout_ref.rollout.val_kwargs.n"
        )
    if config.trainer.max_actor_ckpt_to_keep is None and config.trainer.save_freq > 0:
        said.append("trainer.max_actor_ckpt_to_keep=null keeps every checkpoint: watch the disk")
    if config.trainer.device != "cpu" and not config.actor_rollout_ref.rollout.enforce_eager:
        said.append(
            "actor_rollout_ref.rollout.enforce_eager=false: CUDA graphs are a known cause of worse results; watch "
            "training/rollout_probs_diff_mean"
        )
    return said + (memory.tight(config, facts) if facts else [])


__all__ = [
    "RECIPE_RULES",
    "Result",
    "check_before_loop",
    "check_changed_settings",
    "check_inputs",
    "check_loop",
    "check_machine",
    "check_model",
    "check_recipe",
    "check_storage",
    "preflight",
]
