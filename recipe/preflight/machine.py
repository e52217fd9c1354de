"""Rules on this machine: the device that the recipe is for, a folder that can be written, memory, disk."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
from omegaconf import DictConfig

from recipe.cpu.detect import accelerator_visible
from recipe.preflight.parallel import attention
from recipe.preflight.storage import existing

_GB = 1e9
_CPU_DISK_GB = 2.0
_SHM_GB = 0.7  # Ray's object store and one weight bucket
_RAY_PACKAGE = "_ray_pkg_"  # beginning of the name of a job's working directory
_RAY_STARTED = Path("/tmp/ray/ray_current_cluster")  # written by `ray start`, removed by `ray stop`


def device(config: DictConfig) -> Iterator[str]:
    """A CPU recipe runs where no accelerator is visible, any other where one is, or in a cluster that has them."""
    kind, visible = config.trainer.device, accelerator_visible()
    name = config.recipe.cluster
    if kind == "cpu" and visible:
        yield (
            f"cluster={name} (trainer.device=cpu), but an accelerator is visible: use cluster=single_gpu, single_node "
            "or multi_node, or hide it with CUDA_VISIBLE_DEVICES=''"
        )
    if kind != "cpu" and not visible and not joins_cluster(config):
        yield (
            f"cluster={name} (trainer.device={kind}), but no accelerator is visible here and no Ray cluster is joined: "
            "use cluster=cpu, or submit to a cluster (RAY_ADDRESS, or ray_kwargs.ray_init.address=auto)"
        )


def flash_attention(config: DictConfig) -> Iterator[str]:
    """The attention that training takes is installed; `kernels` stands in for it by fetching it from the Hub.

    The head of a cluster that has no accelerator may have another environment than the nodes: nothing is said there.
    """
    wanted = config.trainer.device == "cuda" and attention(config) == "flash_attention_2"
    if wanted and accelerator_visible() and not any(map(find_spec, ("flash_attn", "kernels"))):
        model = "actor_rollout_ref.model.override_config.attn_implementation"
        yield (
            f"{model}=flash_attention_2 (verl's default), but flash-attn is not installed: install it (requirements-"
            f"flash-attn.txt, or FLASH_ATTN=a/wheel.whl bash scripts/setup.sh gpu), or set +{model}=sdpa and "
            "actor_rollout_ref.actor.ulysses_sequence_parallel_size=1"
        )


def joins_cluster(config: DictConfig) -> bool:
    """Whether Ray will join a cluster that runs already; its head node may well have no accelerator."""
    address = config.ray_kwargs.ray_init.get("address")
    if address is not None:
        return address != "local"
    return bool(os.environ.get("RAY_ADDRESS")) or _RAY_STARTED.is_file()


def run_folder(config: DictConfig) -> Iterator[str]:
    """The run's folder is, or can become, a folder of ours."""
    run_dir = Path(config.run_dir)
    found = existing(run_dir.resolve())
    if not found.is_dir():
        yield f"run_dir={run_dir}: {found} is a file; set run_dir to a folder, new or of this run"
    elif not os.access(found, os.W_OK):
        yield f"run_dir={run_dir}: {found} is not writable; set run_dir to a folder of yours"
    elif not _stores_files(found):
        yield f"run_dir={run_dir}: {found} stores no files, as /proc does not; set run_dir to a folder of yours"
    if any(part.startswith(_RAY_PACKAGE) for part in run_dir.parts):
        yield (
            f"run_dir={run_dir} lies in the folder that Ray unpacked for this job, and removes with everything in it; "
            "give an absolute path on storage of the cluster (OUTPUT_DIR, or run_dir)"
        )


def _stores_files(folder: Path) -> bool:
    """Whether there is a disk, however full, under a folder: /proc and /sys have no block at all."""
    return os.statvfs(folder).f_blocks > 0


def room(config: DictConfig) -> Iterator[str]:
    """A CPU run finds memory, disk and shared memory."""
    if config.trainer.device != "cpu":
        return
    folder, shm = existing(Path(config.run_dir).resolve()), Path("/dev/shm")
    remedy = "close other programs or use a larger machine (preflight.cpu_memory_gb)"
    found = [("memory", psutil.virtual_memory().available, config.preflight.cpu_memory_gb, remedy)]
    if _stores_files(folder):  # otherwise `run_folder` has said so
        disk = shutil.disk_usage(folder).free
        found.append((f"disk space at {folder}", disk, _CPU_DISK_GB, "free some, or set run_dir"))
    if shm.is_dir():
        found.append(("shared memory in /dev/shm", shutil.disk_usage(shm).free, _SHM_GB, "remove old segments there"))
    for what, free, needed, remedy in found:
        if free < needed * _GB:
            yield f"{what}: {free / _GB:.1f} GB free, about {needed:.1f} GB needed; {remedy}"


RULES = (device, flash_attention, run_folder, room)
