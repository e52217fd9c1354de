"""Sizes that must divide each other: devices, tensor parallel, Ulysses, shards."""

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from recipe.checkpoints import world_size
from recipe.preflight.values import nearest_divisor


def sizes_divide_devices(config: DictConfig) -> Iterator[str]:
    """Tensor parallel, Ulysses and shard sizes divide the number of devices."""
    devices, per_node = world_size(config), config.trainer.n_gpus_per_node
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    sizes = {
        "actor_rollout_ref.rollout.tensor_model_parallel_size": rollout.tensor_model_parallel_size,
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size": actor.ulysses_sequence_parallel_size,
    }
    if actor.fsdp_config.fsdp_size > 0:
        sizes["actor_rollout_ref.actor.fsdp_config.fsdp_size"] = actor.fsdp_config.fsdp_size
    for key, size in sizes.items():
        if devices % size:
            yield (
                f"{key}={size} does not divide nnodes * n_gpus_per_node = {config.trainer.nnodes} * {per_node} "
                f"devices; nearest: {nearest_divisor(devices, size)}"
            )
    tp = rollout.tensor_model_parallel_size
    if tp <= per_node and per_node % tp:
        yield (
            f"actor_rollout_ref.rollout.tensor_model_parallel_size={tp} does not divide trainer.n_gpus_per_node="
            f"{per_node}: a rollout replica would straddle nodes; nearest: {nearest_divisor(per_node, tp)}"
        )


def attention(config: DictConfig) -> str:
    """The attention that training takes; verl's default is the second (verl/workers/config/model.py)."""
    key = "actor_rollout_ref.model.override_config.attn_implementation"
    return OmegaConf.select(config, key) or "flash_attention_2"


def ulysses(config: DictConfig) -> Iterator[str]:
    """Ulysses reaches flash attention and packed batches only."""
    size, model = config.actor_rollout_ref.actor.ulysses_sequence_parallel_size, config.actor_rollout_ref.model
    if size == 1:
        return
    if (taken := attention(config)) != "flash_attention_2":
        yield (
            f"actor_rollout_ref.actor.ulysses_sequence_parallel_size={size} with attn_implementation={taken} is "
            "silently wrong: verl's Ulysses reaches flash_attention_2 only; set it to 1, or install flash-attn"
        )
    if not model.use_remove_padding:
        yield (
            f"actor_rollout_ref.actor.ulysses_sequence_parallel_size={size} needs "
            "actor_rollout_ref.model.use_remove_padding=true; set it, or set the size to 1"
        )


def cluster(config: DictConfig) -> Iterator[str]:
    """Several nodes come from a cluster that runs already."""
    ray = config.ray_kwargs.ray_init
    address, nodes = ray.get("address"), config.trainer.nnodes
    if nodes > 1 and address == "local":
        yield (
            f"trainer.nnodes={nodes} with ray_kwargs.ray_init.address=local: a local cluster has one node; start Ray "
            "on every node and set ray_kwargs.ray_init.address=auto (cluster=multi_node)"
        )
    if address not in (None, "local"):
        for key in ("num_cpus", "num_gpus", "object_store_memory"):
            if ray.get(key) is not None:
                yield (
                    f"ray_kwargs.ray_init.{key}={ray[key]} with address={address}: Ray refuses resources when it joins "
                    f"a cluster; set ray_kwargs.ray_init.{key}=null and give them to `ray start`"
                )
