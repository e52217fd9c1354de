"""The only places where verl, vLLM or torch are changed rather than extended, and what upstream would have to change.

Each function replaces one symbol and raises if that symbol is not what it was written for.
"""

import importlib
import inspect
import socket
from collections.abc import Callable
from typing import Any

from recipe.cpu.weight_socket import limit_waits
from recipe.loopback import is_loopback


def _replace(module_name: str, name: str, parameters: list[str], make: Callable[[Any], Any]) -> None:
    module = importlib.import_module(module_name)
    original = getattr(module, name, None)
    found = list(inspect.signature(original).parameters) if callable(original) else None
    if found != parameters:
        raise RuntimeError(
            f"recipe.cpu.patches: {module_name}.{name} should take {parameters}, found {found}. The pinned version has "
            "changed: read the new source and adapt or drop the patch."
        )
    setattr(module, name, make(original))


def process_group_backend() -> None:
    """Ask torch for `cpu:gloo` instead of `cpu:gloo,cpu:gloo`.

    Upstream: `verl.utils.distributed` names the CPU and the device apart; it would have to name them once when the
    device is the CPU. Must run before `verl.workers` is imported, which copies the function by name.
    """

    def make(original):
        def initialize_global_process_group_ray(timeout_second=None, backend=None):
            return original(timeout_second, backend or "cpu:gloo")

        return initialize_global_process_group_ray

    _replace("verl.utils.distributed", "initialize_global_process_group_ray", ["timeout_second", "backend"], make)


def local_store() -> None:
    """Keep the rendezvous of a process group on loopback when its address is; torch listens on every interface.

    Upstream: `torch.distributed.rendezvous._create_c10d_store` would have to bind the address that it is given.
    """

    def make(original):
        def _create_c10d_store(hostname, port, rank, world_size, timeout, use_libuv=True):
            if rank != 0 or not is_loopback(hostname):
                return original(hostname, port, rank, world_size, timeout, use_libuv)
            from torch.distributed import TCPStore

            listener = socket.create_server((hostname, port))
            return TCPStore(
                host_name=hostname,
                port=listener.getsockname()[1],
                world_size=world_size,
                is_master=True,
                timeout=timeout,
                multi_tenant=True,
                master_listen_fd=listener.detach(),
                use_libuv=use_libuv,
            )

        return _create_c10d_store

    parameters = ["hostname", "port", "rank", "world_size", "timeout", "use_libuv"]
    _replace("torch.distributed.rendezvous", "_create_c10d_store", parameters, make)


def unpinned_offload() -> None:
    """Let FSDP2 keep a reference policy without pinned memory, which torch has only beside an accelerator.

    Upstream: `verl.workers.engine.fsdp.transformer_impl` would have to pin only beside something to copy to. Must
    run before `verl.utils.fsdp_utils` is imported, which copies the class by name.
    """

    def make(original):
        def CPUOffloadPolicy(pin_memory=True):
            return original(pin_memory=False)

        return CPUOffloadPolicy

    _replace("torch.distributed.fsdp", "CPUOffloadPolicy", ["pin_memory"], make)


def server_adapter() -> None:
    """Let trainers reach a vLLM engine through `CPUServerAdapter`.

    Upstream: `verl.workers.rollout.base` keeps the class names in a table that it has no function to add to.
    """
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY as table

    key, verls = ("vllm", "async"), "verl.workers.rollout.vllm_rollout.ServerAdapter"
    ours = "recipe.cpu.server_adapter.CPUServerAdapter"
    if table.get(key) not in (verls, ours):
        raise RuntimeError(f"recipe.cpu.patches: verl's {key} rollout should be {verls}, found {table.get(key)}")
    table[key] = ours


def weight_sender() -> None:
    """Let a trainer whose engine has died while it sends weights fail after a while; verl's waits for ever.

    Upstream: `BucketedWeightSender` would have to limit how long its socket waits, or watch the engine's answer. Called
    where `verl.workers.rollout.vllm_rollout.vllm_rollout`, which copies the class by name, is imported already.
    """

    def make(original):
        class BucketedWeightSender(original):  # type: ignore[valid-type, misc]
            def _init_socket(self):
                super()._init_socket()
                limit_waits(self.socket)

        return BucketedWeightSender

    parameters = ["zmq_handle", "bucket_size_mb", "use_shm"]
    _replace("verl.workers.rollout.vllm_rollout.vllm_rollout", "BucketedWeightSender", parameters, make)


def keep_linear_weights() -> None:
    """Keep a linear layer's original weight after vLLM has packed it for oneDNN.

    Upstream: `UnquantizedLinearMethod.process_weights_after_loading` frees the weight, so a second load (which verl
    does after every update) finds an empty parameter; vLLM would have to allow reloading on CPU.
    """

    def make(original):
        def dispatch_cpu_unquantized_gemm(layer, remove_weight):
            return original(layer, remove_weight=False)

        return dispatch_cpu_unquantized_gemm

    _replace("vllm.model_executor.layers.utils", "dispatch_cpu_unquantized_gemm", ["layer", "remove_weight"], make)
