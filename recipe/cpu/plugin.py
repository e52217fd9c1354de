"""Imported by verl in every process of a CPU run (`VERL_USE_EXTERNAL_MODULES`), at the end of `import verl`."""

from recipe.cpu import patches, platform, vllm_metadata

__all__ = ["platform"]

vllm_metadata.install()
patches.local_store()
patches.process_group_backend()  # these two before anything imports verl.workers, which copies them by name
patches.unpinned_offload()


def _load_replica():
    from recipe.cpu.rollout import CPUReplica

    return CPUReplica


from verl.workers.rollout.replica import RolloutReplicaRegistry  # noqa: E402

RolloutReplicaRegistry.register("vllm", _load_replica)
patches.server_adapter()
