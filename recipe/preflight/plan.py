"""The plan of a run in plain words: what a step is, how long the run is, what it takes."""

from omegaconf import DictConfig

from recipe.checkpoints import world_size
from recipe.preflight.data import Data
from recipe.preflight.memory import ASSUMPTIONS, checkpoint_bytes, memory
from recipe.preflight.model_facts import ModelFacts

_GB = 1e9


def plan(config: DictConfig, model: ModelFacts | None, data: Data) -> list[str]:
    """Lines of the plan; what is not known on this machine is said to be unknown, never guessed."""
    return [
        *_head(config, model, data),
        *_step(config),
        *_run(config, data),
        *_validation(config, data),
        *_checkpoints(config, model),
        *_memory(config, model),
    ]


def _head(config: DictConfig, model: ModelFacts | None, data: Data) -> list[str]:
    recipe, trainer = config.recipe, config.trainer
    name = config.actor_rollout_ref.model.path
    what = f"{name}: not on this machine, its size is unknown"
    if model is not None and model.parameters is not None:
        what = f"{name}, {model.parameters / 1e9:.3g} B parameters, {model.layers} layers; from {model.source}"
    sources = sorted({s for facts in data.facts.values() for f in facts for s in f.sources})
    return [
        f"recipe      experiment={recipe.experiment} technique={recipe.technique} cluster={recipe.cluster}, "
        f"{trainer.nnodes} node(s) x {trainer.n_gpus_per_node} {trainer.device} device(s)",
        f"model       {what}",
        f"data        {_rows(config, data, 'train_files')} training rows, {_rows(config, data, 'val_files')} "
        "validation rows" + (f"; data_source {', '.join(sources)}" if sources else ""),
    ]


def _rows(config: DictConfig, data: Data, key: str) -> str:
    rows = data.rows(config, key)
    return "unknown" if rows is None else f"{rows:,}"


def _step(config: DictConfig) -> list[str]:
    batch, n = config.data.train_batch_size, config.actor_rollout_ref.rollout.n
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    updates = updates_per_step(config)
    mini = config.actor_rollout_ref.actor.ppo_mini_batch_size
    lines = [
        f"a step      {batch:,} prompts x {n} samples = {batch * n:,} samples, at most "
        f"{batch * n * (prompt + response):,} tokens ({prompt:,} + {response:,} a sample)",
        f"updates     {updates} a step, each of {mini:,} prompts = {mini * n:,} samples",
    ]
    if config.algorithm.filter_groups.enable:
        lines.append(
            f"filter      only groups with right and wrong answers train: generation takes {batch:,} prompts a step "
            "divided by the share of such groups"
        )
    return lines


def updates_per_step(config: DictConfig) -> int:
    """Optimizer steps of one rollout step."""
    actor = config.actor_rollout_ref.actor
    return config.data.train_batch_size // actor.ppo_mini_batch_size * actor.ppo_epochs


def _run(config: DictConfig, data: Data) -> list[str]:
    steps, updates = config.trainer.total_training_steps, updates_per_step(config)
    prompts = steps * config.data.train_batch_size
    rows = data.rows(config, "train_files")
    passes = f", {prompts / rows:.2f} passes over the data" if rows else ""
    if config.algorithm.filter_groups.enable:
        passes += " at least (filtered groups use up prompts too)"
    return [
        f"the run     {steps:,} rollout steps = {steps * updates:,} gradient steps; {prompts:,} trained prompts{passes}"
    ]


def _validation(config: DictConfig, data: Data) -> list[str]:
    every, n = config.trainer.test_freq, config.actor_rollout_ref.rollout.val_kwargs.n
    times = (-(-config.trainer.total_training_steps // every) if every > 0 else 0) + bool(
        config.trainer.val_before_train
    )
    rows, response = data.rows(config, "val_files"), config.data.max_response_length
    if not times:
        return ["validation  never"]
    if (tokens := validation_tokens(config, data)) is None:
        return [f"validation  {times} times, {n} samples a problem, at most {response:,} tokens each"]
    return [f"validation  {times} times {rows:,} problems x {n} samples, at most {tokens:,} tokens each time"]


def validation_tokens(config: DictConfig, data: Data) -> int | None:
    """Tokens that one validation generates at most; None without the data."""
    rows = data.rows(config, "val_files")
    return (
        None if rows is None else rows * config.actor_rollout_ref.rollout.val_kwargs.n * config.data.max_response_length
    )


def tokens_per_step(config: DictConfig) -> int:
    """Tokens that the groups of one step have at most, without what the filter drops."""
    return config.data.train_batch_size * config.actor_rollout_ref.rollout.n * config.data.max_response_length


def _checkpoints(config: DictConfig, model: ModelFacts | None) -> list[str]:
    every, keep = config.trainer.save_freq, config.trainer.max_actor_ckpt_to_keep
    if every < 1:
        return ["checkpoint  never"]
    size = checkpoint_bytes(config, model)
    bytes_ = "unknown size" if size is None else f"about {size / _GB:.3g} GB"
    kept = f"the newest {keep} are kept (and the one being written)" if keep else "all are kept"
    return [f"checkpoint  every {every} steps, {bytes_} each; {kept}; in {config.trainer.default_local_dir}"]


def _memory(config: DictConfig, model: ModelFacts | None) -> list[str]:
    gpu_gb = config.preflight.gpu_memory_gb
    found = memory(config, model, gpu_gb)
    if found is None:
        why = "a CPU run" if config.trainer.device == "cpu" else "the model's size is unknown here"
        return [f"GPU memory  not estimated: {why}"]
    offloaded = found.weights + found.optimizer - found.resident
    per_node = offloaded * min(config.trainer.n_gpus_per_node, world_size(config))
    return [
        f"GPU memory  estimated for each of {world_size(config)} ranks, GPUs of {gpu_gb} GB (preflight.gpu_memory_gb):",
        f"  update    weights {found.weights:.1f} + gradients {found.gradients:.1f} + optimizer {found.optimizer:.1f} "
        f"+ activations {found.activations:.1f} + gathered {found.gathered:.1f} = {found.update:.1f} GB",
        f"  rollout   weights {found.rollout_weights:.1f} + KV cache {found.kv_cache:.1f} within vLLM's "
        f"{found.rollout_share:.1f} GB, the actor keeps {found.resident:.1f} GB; a replica's cache holds "
        f"{found.kv_tokens:,} tokens",
        f"  host      {per_node:.0f} GB a node for what is offloaded",
        *(f"  assumed   {line}" for line in ASSUMPTIONS),
    ]
