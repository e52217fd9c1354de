"""Rules on names that verl 0.9.1 knows and on ranges outside of which a worker fails, or trains without a word."""

from collections.abc import Callable, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_STORED = ("fp32", "float32", "bf16", "bfloat16", "fp16", "float16", "half")
NAMES = {
    f"{_ACTOR}.strategy": ("fsdp2", "fsdp"),
    f"{_ACTOR}.fsdp_config.model_dtype": _STORED,
    f"{_ACTOR}.fsdp_config.mixed_precision.param_dtype": _STORED,
    f"{_ROLLOUT}.name": ("vllm",),
    f"{_ROLLOUT}.dtype": ("bfloat16", "float16", "half", "float32", "float", "auto"),
    "trainer.device": ("cuda", "npu", "cpu"),
}
# Names that a module of one's own, imported through external_lib, may add to: what verl registers, and what we do.
LOSS_MODES = (
    "dapo", "vanilla", "dppo_tv", "dppo_kl", "gspo", "sapo", "gpg", "clip_cov", "kl_cov", "geo_mean", "dro", "cispo",
    "bypass_mode",
)  # fmt: skip
ADVANTAGES = (
    "grpo", "gae", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "rloo", "opo", "grpo_passk", "gpg",
    "rloo_vectorized", "grpo_vectorized", "optimal_token_baseline", "tir_optimal_token_baseline", "gdpo",
)  # fmt: skip
AGENT_LOOPS = ("dapo_single_turn", "single_turn_agent", "tool_agent")
_REGISTERED = {
    f"{_ACTOR}.policy_loss.loss_mode": LOSS_MODES,
    "algorithm.adv_estimator": ADVANTAGES,
    f"{_ROLLOUT}.agent.default_agent_loop": AGENT_LOOPS,
}
_EXTERNAL, _LOOPS_FILE = "actor_rollout_ref.model.external_lib", f"{_ROLLOUT}.agent.agent_loop_config_path"
# Key: what it must be, in words and as a test of the value.
_RANGES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    f"{_ACTOR}.optim.lr": ("above 0", lambda value: value > 0),
    f"{_ACTOR}.optim.weight_decay": ("0 or more", lambda value: value >= 0),
    f"{_ACTOR}.optim.clip_grad": ("above 0, or every gradient is cut to nothing", lambda value: value > 0),
    f"{_ACTOR}.clip_ratio_c": ("above 1, as verl asserts", lambda value: value > 1),
    f"{_ROLLOUT}.gpu_memory_utilization": ("above 0 and at most 1", lambda value: 0 < value <= 1),
    f"{_ROLLOUT}.max_num_seqs": ("at least 1", lambda value: value >= 1),
    f"{_ROLLOUT}.agent.num_workers": ("at least 1", lambda value: value >= 1),
    f"{_ROLLOUT}.val_kwargs.temperature": ("0 or more", lambda value: value >= 0),
    "data.dataloader_num_workers": ("0 or more", lambda value: value >= 0),
    "preflight.gpu_memory_gb": ("above 0", lambda value: value > 0),
    "preflight.cpu_memory_gb": ("above 0", lambda value: value > 0),
    "seed": ("0 or more", lambda value: value >= 0),
    "trainer.save_freq": ("1 step or more; -1 is never", lambda value: value >= -1),
    "trainer.test_freq": ("1 step or more; -1 is never", lambda value: value >= -1),
}


def names(config: DictConfig) -> Iterator[str]:
    """Strategy, engine, types and device are ones that this recipe's stack has."""
    for key, known in NAMES.items():
        value = OmegaConf.select(config, key)
        if value is not None and value not in known:
            yield f"{key}={value} is unknown here: use {' or '.join(known)}"


def registered(config: DictConfig) -> Iterator[str]:
    """Loss, advantage and agent loop are registered, as far as no module of one's own may do so."""
    libraries = OmegaConf.select(config, _EXTERNAL) or []
    libraries = [libraries] if isinstance(libraries, str) else libraries
    if any(not str(library).startswith("recipe.") for library in libraries):
        return
    for key, known in _REGISTERED.items():
        value = OmegaConf.select(config, key)
        if key.endswith("agent_loop") and OmegaConf.select(config, _LOOPS_FILE) is not None:
            continue
        if value is not None and value not in known:
            yield (
                f"{key}={value} is unknown: use one of {', '.join(known)}, or name the module that registers yours in "
                f"{_EXTERNAL}"
            )


def ranges(config: DictConfig) -> Iterator[str]:
    """Numbers lie where they mean something."""
    for key, (words, holds) in _RANGES.items():
        value = OmegaConf.select(config, key)
        if value is not None and not holds(value):
            yield f"{key}={value} must be {words}"
