"""Rules on the model: there, long enough, divisible, and of one mind about where a text ends."""

from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from data_prep.tokens import has_tokenizer
from recipe.preflight.model_facts import ModelFacts
from recipe.preflight.own_code import look

_TRUST = "actor_rollout_ref.model.trust_remote_code"


def folder_exists(config: DictConfig) -> Iterator[str]:
    """A path is a model folder; a Hub name is left to verl."""
    name = str(config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser()
    looks_local = folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
    if folder.is_dir() and not (folder / "config.json").is_file():
        yield f"actor_rollout_ref.model.path={name} has no config.json: it is not a Hugging Face model folder"
    if folder.is_file():
        yield f"actor_rollout_ref.model.path={name} is a file: give the model folder, {folder.parent} perhaps"
    elif looks_local and not folder.is_dir():
        yield f"actor_rollout_ref.model.path={name} is missing: give a model folder, or a Hub name such as org/model"


def whole_folder(config: DictConfig) -> Iterator[str]:
    """A model folder holds weights and a tokenizer, not a configuration alone."""
    name = str(config.actor_rollout_ref.model.path)
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        return
    if not any(next(folder.glob(pattern), None) for pattern in ("*.safetensors", "*.bin")):
        yield f"actor_rollout_ref.model.path={name} has no weights (*.safetensors or *.bin): fetch the model again"
    path = OmegaConf.select(config, "actor_rollout_ref.model.tokenizer_path")
    if path is None and not has_tokenizer(folder):
        yield (
            f"actor_rollout_ref.model.path={name} has no tokenizer (such as tokenizer.json): fetch the model again, or "
            "set actor_rollout_ref.model.tokenizer_path"
        )


def no_code_of_its_own(config: DictConfig) -> Iterator[str]:
    """A model or tokenizer that brings Python code is trusted by an explicit key only.

    verl's reward worker loads the tokenizer with `trust_remote_code=True`, whatever the configuration says
    (verl/experimental/reward_loop/reward_loop.py).
    """
    for key, name in _untrusted(config).items():
        found = look(name)
        if found.missing:
            yield f"{key}={name} {found.missing}: check the name, log in (hf auth login), or give a model folder"
        for where in found.code:
            yield (
                f"{where} names Python code of the model's own (auto_map), which would run here: read that code and "
                f"set {_TRUST}=true, or take a model without"
            )


def code_not_looked_at(config: DictConfig) -> Iterator[str]:
    """A note: nobody knows whether a model brings code where the Hub is not reached and nothing is cached."""
    for key, name in _untrusted(config).items():
        if unseen := look(name).unseen:
            yield f"{key}={name} was not looked at for code of its own, which verl would run: {unseen}"


def _untrusted(config: DictConfig) -> dict[str, str]:
    """Names of the model and of its tokenizer by key, none where their code is trusted."""
    model = config.actor_rollout_ref.model
    if OmegaConf.select(config, _TRUST):
        return {}
    return {f"actor_rollout_ref.model.{key}": str(model[key]) for key in ("path", "tokenizer_path") if model[key]}


def context(config: DictConfig, model: ModelFacts) -> Iterator[str]:
    """Prompt and response fit into the model's positions, in trainer and rollout engine."""
    key = "max_position_embeddings"
    longest = config.data.max_prompt_length + config.data.max_response_length
    trained = OmegaConf.select(config, f"actor_rollout_ref.model.override_config.{key}") or model.positions
    if model.positions is None or trained is None:
        return
    if trained < longest:
        yield (
            f"max_prompt_length + max_response_length = {longest} is more than the model's {key}={trained} "
            f"({config.actor_rollout_ref.model.path}): answers would be cut without the overlong punishment; shorten "
            f"them, or set +actor_rollout_ref.model.override_config.{key} and "
            f"+actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides.{key}"
        )
    override = f"actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides.{key}"
    rollout = OmegaConf.select(config, override) or model.positions
    if trained >= longest > rollout:
        yield (
            f"actor_rollout_ref.model.override_config.{key}={trained} reaches the trainer only, the rollout engine "
            f"still sees {rollout}; set +{override}={trained}"
        )


def heads(config: DictConfig, model: ModelFacts) -> Iterator[str]:
    """Tensor parallel and Ulysses sizes divide the attention heads, and the key-value heads one way or the other."""
    sizes = {
        "actor_rollout_ref.rollout.tensor_model_parallel_size": (
            config.actor_rollout_ref.rollout.tensor_model_parallel_size
        ),
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size": (
            config.actor_rollout_ref.actor.ulysses_sequence_parallel_size
        ),
    }
    for key, size in sizes.items():
        if model.heads % size or (model.kv_heads % size and size % model.kv_heads):
            good = [
                s for s in range(1, model.heads + 1)
                if model.heads % s == 0 and (model.kv_heads % s == 0 or s % model.kv_heads == 0)
            ]  # fmt: skip
            yield (
                f"{key}={size} does not divide the model's {model.heads} attention heads and {model.kv_heads} "
                f"key-value heads; possible: {', '.join(map(str, good))}"
            )


def end_of_text(config: DictConfig, model: ModelFacts) -> Iterator[str]:
    """The tokenizer's end-of-text token is one that a generation ends with.

    vLLM ends with the tokenizer's and those of generation_config.json, which is config.json's where it is missing;
    config.json may well name another beside it, as that of Qwen3.5 does.
    """
    tokenizer, name = model.eos_tokenizer, config.actor_rollout_ref.model.path
    file, ids = "generation_config.json", model.eos_generation
    if ids is None:
        file, ids = "config.json", model.eos_config
    if tokenizer and ids and not tokenizer & ids:
        yield (
            f"actor_rollout_ref.model.path={name}: the tokenizer ends a text with id {min(tokenizer)}, {file} with "
            f"{sorted(ids)}: answers would run on into a next turn; make eos_token_id in {file} the tokenizer's"
        )


def weight_bucket(config: DictConfig, model: ModelFacts) -> Iterator[str]:
    """Without an accelerator, verl sends each weight to the engine in one bucket, the largest too."""
    key = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    rows = max(model.vocab, model.intermediate)
    size, needed = OmegaConf.select(config, key), -(-rows * model.hidden * 4 // 2**20)
    if config.trainer.device == "cpu" and size < needed:
        yield f"{key}={size}: the largest weight ({rows} x {model.hidden}) needs {needed}; set it to that or more"


RULES = (context, heads, end_of_text, weight_bucket)
