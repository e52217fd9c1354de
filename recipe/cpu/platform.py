"""The `cpu` platform of verl's platform registry."""

import types
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


def _device_module() -> types.ModuleType:
    """`torch.cpu` plus the accelerator functions that verl calls and a CPU answers with nothing to do."""
    module = types.ModuleType("recipe.cpu.device")
    module.__dict__.update({name: getattr(torch.cpu, name) for name in dir(torch.cpu) if not name.startswith("__")})

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        return None

    def zero(*_args: Any, **_kwargs: Any) -> int:
        return 0

    module.__dict__.update(
        empty_cache=nothing,
        ipc_collect=nothing,
        reset_peak_memory_stats=nothing,
        set_per_process_memory_fraction=nothing,
        memory_allocated=zero,
        memory_reserved=zero,
        max_memory_allocated=zero,
        max_memory_reserved=zero,
        mem_get_info=lambda *_: (0, 0),
        get_device_name=lambda *_: "cpu",
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        set_device=nothing,
    )
    return module


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """CPU cores as verl devices: one logical GPU of Ray is one training rank."""

    _module = _device_module()

    device_name = "cpu"
    vendor_name = "cpu"

    @property
    def device_module(self) -> types.ModuleType:
        """`torch.cpu` with memory functions that answer zero."""
        return self._module

    def is_available(self) -> bool:
        """A CPU is always there."""
        return True

    def current_device(self) -> str:  # type: ignore[override]
        """The string "cpu": an integer would mean cuda:0 to `module.to`."""
        return torch.cpu.current_device()

    def device_count(self) -> int:
        """One device a process."""
        return 1

    def set_device(self, device_index: int) -> None:
        """Nothing to select."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing is asynchronous."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """No caching allocator."""

    def empty_cache(self) -> None:
        """No caching allocator."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """No compute capability."""
        return None, None

    def communication_backend_name(self) -> str:
        """Collectives go over gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """verl writes the replica's device list here; nothing on a CPU reads it."""
        return "CPU_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str):
        """No profiler ranges."""
        yield

    def profiler_start(self) -> None:
        """No device profiler."""

    def profiler_stop(self) -> None:
        """No device profiler."""

    def ray_resource_name(self) -> str:
        """Ray's `GPU` resource, granted logically with `ray_init.num_gpus`."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Ray need not hide devices."""
        return []

    def is_ipc_supported(self) -> bool:
        """Weights travel by shared memory."""
        return False

    def cudart(self) -> Any:
        """No CUDA runtime."""
        return None
