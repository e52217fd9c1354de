"""Estimates of memory per rank and bytes per checkpoint, from the model's shape and the configuration.

Estimates, not measurements: each assumption is a line of `ASSUMPTIONS`, and the plan prints them.
"""

from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from recipe.checkpoints import world_size
from recipe.preflight.model_facts import ModelFacts

_GB = 1e9
_BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2, "half": 2}
_ENGINE_GB = 4.0  # activations of a vLLM step, its workspace and CUDA graphs
ASSUMPTIONS = (
    "FSDP2 shards weights, gradients and both Adam moments evenly, in actor.fsdp_config.model_dtype",
    "activations: 2 bytes a value; with gradient checkpointing one hidden state a layer and token, and one layer's "
    "working set (8 hidden + 4 feed-forward values a token); 4 bytes a logit",
    "one layer and the embeddings gathered in 16 bits",
    f"vLLM: gpu_memory_utilization of the GPU, less its weights and {_ENGINE_GB:.0f} GB, is KV cache",
    "vLLM gives its share back while the actor trains; offloaded parts are on the GPU during an update only",
)


@dataclass(frozen=True)
class Memory:
    """GB per rank. `resident`: what the actor leaves on the GPU while vLLM generates; `kv_tokens`: of a replica."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    gathered: float
    rollout_share: float
    rollout_weights: float
    kv_cache: float
    kv_tokens: int
    resident: float

    @property
    def update(self) -> float:
        """GB during an update."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.gathered

    @property
    def rollout(self) -> float:
        """GB while vLLM generates."""
        return self.rollout_share + self.resident


def precision(config: DictConfig) -> int:
    """Bytes of a stored weight of the actor."""
    return _BYTES[str(config.actor_rollout_ref.actor.fsdp_config.model_dtype).lower()]


def memory(config: DictConfig, model: ModelFacts | None, gpu_gb: float) -> Memory | None:
    """Estimate one rank's memory; None without the model's parameters, or on a CPU.

    Args:
        config: the composed recipe.
        model: shape of the model.
        gpu_gb: memory of one GPU in GB (1e9 bytes).
    """
    if model is None or model.parameters is None or config.trainer.device == "cpu":
        return None
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    fsdp, size = actor.fsdp_config, precision(config)
    shards = fsdp.fsdp_size if fsdp.fsdp_size > 0 else world_size(config)
    weights = model.parameters * size / shards / _GB
    tp = rollout.tensor_model_parallel_size
    rollout_weights = model.parameters * _BYTES.get(str(rollout.dtype).lower(), 2) / tp / _GB
    share = rollout.gpu_memory_utilization * gpu_gb
    cache = max(0.0, share - rollout_weights - _ENGINE_GB)
    return Memory(
        weights=weights,
        gradients=weights,
        optimizer=2 * weights,
        activations=activations(config, model),
        gathered=2 * (2 * model.vocab * model.hidden + model.parameters / model.layers) / _GB,
        rollout_share=share,
        rollout_weights=rollout_weights,
        kv_cache=cache,
        kv_tokens=int(cache * _GB / kv_bytes(config, model)),
        resident=(0.0 if fsdp.param_offload else weights) + (0.0 if fsdp.optimizer_offload else 2 * weights),
    )


def activations(config: DictConfig, model: ModelFacts) -> float:
    """GB that one micro-batch leaves on a rank for the backward pass."""
    tokens = tokens_per_rank(config)
    working = 2 * tokens * (8 * model.hidden + 4 * model.intermediate)
    if config.actor_rollout_ref.model.enable_gradient_checkpointing:
        layers = 2 * tokens * model.hidden * model.layers + working
    else:
        layers = working * model.layers
    return (layers + 4 * tokens * model.vocab) / _GB


def tokens_per_rank(config: DictConfig) -> int:
    """Tokens of a micro-batch on one rank."""
    actor = config.actor_rollout_ref.actor
    if actor.use_dynamic_bsz:
        return actor.ppo_max_token_len_per_gpu
    longest = config.data.max_prompt_length + config.data.max_response_length
    return (actor.ppo_micro_batch_size_per_gpu or 1) * longest // actor.ulysses_sequence_parallel_size


def kv_bytes(config: DictConfig, model: ModelFacts) -> float:
    """Bytes of key-value cache a token takes on one rank of a replica."""
    rollout = config.actor_rollout_ref.rollout
    heads = max(1, model.kv_heads // rollout.tensor_model_parallel_size)
    return 2 * model.attention_layers * heads * model.head_dim * _BYTES.get(str(rollout.dtype).lower(), 2)


def checkpoint_bytes(config: DictConfig, model: ModelFacts | None) -> int | None:
    """Bytes of one checkpoint, all ranks together; None without the model's parameters."""
    if model is None or model.parameters is None:
        return None
    parts: Any = config.actor_rollout_ref.actor.checkpoint.save_contents
    size = precision(config)
    per_parameter = {"model": size, "optimizer": 2 * size, "hf_model": size}
    return model.parameters * sum(bytes_ for part, bytes_ in per_parameter.items() if part in parts)


def fits(config: DictConfig, model: ModelFacts) -> list[str]:
    """Problems that no setting of the machine can mend: a rank's part alone is larger than a GPU."""
    gpu_gb = config.preflight.gpu_memory_gb
    found = memory(config, model, gpu_gb)
    if found is None:
        return []
    problems = []
    static = found.weights + found.gradients + found.optimizer
    if static > gpu_gb:
        problems.append(
            f"weights, gradients and optimizer take {static:.0f} GB of each GPU, preflight.gpu_memory_gb={gpu_gb}: use "
            "more GPUs (trainer.nnodes, trainer.n_gpus_per_node), a smaller model, or larger GPUs"
        )
    if found.rollout > gpu_gb:
        problems.append(
            f"actor_rollout_ref.rollout.gpu_memory_utilization={found.rollout_share / gpu_gb:.2f} "
            f"leaves {gpu_gb - found.rollout_share:.0f} GB, but the actor keeps {found.resident:.0f} GB on the GPU; "
            "lower it, or set actor_rollout_ref.actor.fsdp_config.param_offload=true and optimizer_offload=true"
        )
    longest = config.data.max_prompt_length + config.data.max_response_length
    if found.kv_tokens < longest:
        problems.append(
            f"the KV cache holds {found.kv_tokens} tokens, less than one sequence of {longest}: raise "
            "actor_rollout_ref.rollout.tensor_model_parallel_size or gpu_memory_utilization"
        )
    return problems


def tight(config: DictConfig, model: ModelFacts) -> list[str]:
    """What the estimate says may not fit; a warning, since activations are rough."""
    gpu_gb = config.preflight.gpu_memory_gb
    found = memory(config, model, gpu_gb)
    if found is None or found.update <= gpu_gb:
        return []
    return [
        f"an update may need {found.update:.0f} GB of each GPU, preflight.gpu_memory_gb={gpu_gb}: if it fails, lower "
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu, or raise ulysses_sequence_parallel_size"
    ]
