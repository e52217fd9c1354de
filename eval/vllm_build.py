"""Which vLLM is installed, and the environment that its build for CPU cores wants. Imports no vLLM."""

import importlib.metadata

CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # without it vLLM gives the worker a process of its own
    "TORCHDYNAMO_DISABLE": "1",  # with eager models only sampling helpers would compile: 23 s at every start
}


def vllm_version() -> str:
    """Name and version of the installed vLLM, such as `vllm-cpu 0.24.0`, or `none`."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return "none"


def built_for_cpu() -> bool:
    """Whether the installed vLLM runs on CPU cores."""
    return "cpu" in vllm_version()
