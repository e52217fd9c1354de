"""Is an accelerator visible? Answered from device files, without importing torch."""

import os
from pathlib import Path

_DEVICE_FILES = ("nvidia0", "nvidiactl", "kfd", "davinci_manager", "accel/accel0")


def accelerator_visible(dev: Path = Path("/dev")) -> bool:
    """Return True if this process could use an accelerator.

    A device file of NVIDIA, AMD, Ascend or a generic accelerator counts, unless the user hid every device with
    `CUDA_VISIBLE_DEVICES=""` (or `-1`).

    Args:
        dev: the folder of device files; a parameter so that a test can show both answers.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES", "unset").strip() in ("", "-1"):
        return False
    return any((dev / name).exists() for name in _DEVICE_FILES)
