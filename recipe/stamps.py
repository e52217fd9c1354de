"""What each attempt of a run was made of: commit, local changes, versions, resolved configuration, data, plan."""

import json
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from recipe.checkpoints import resume_folder
from recipe.provenance import commit, local_changes, versions, write_text_atomic
from recipe.run_identity import data_identity, file_list, model_identity

RESOLVED_CONFIG = "config.resolved.yaml"
ATTEMPTS = "attempts"
_DATA_KEYS = ("train_files", "val_files")


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
    commit, `dirty.diff`; files that git does not know are named in the stamp (see `provenance.local_changes`).
    """
    attempt = new_attempt(run_dir)
    resolved = f"# commit {commit()}\n" + OmegaConf.to_yaml(config, resolve=True)
    resumed, changes = resume_folder(config), local_changes()
    content = {
        "attempt": attempt.number,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]],
        "commit": commit(),
        "untracked": changes["untracked"],
        "versions": versions(),
        "data": {key: [data_identity(Path(p)) for p in file_list(config.data[key])] for key in _DATA_KEYS},
        "model": model_identity(config),
        "resumed_from": str(resumed) if resumed else None,
    }
    write_text_atomic(attempt.folder / RESOLVED_CONFIG, resolved)
    write_text_atomic(attempt.folder / "stamp.json", json.dumps(content, indent=1) + "\n")
    write_text_atomic(attempt.folder / "plan.txt", "\n".join(plan) + "\n")
    if diff := (changes["diff"] or "").strip():
        write_text_atomic(attempt.folder / "dirty.diff", diff + "\n")
    write_text_atomic(run_dir / RESOLVED_CONFIG, resolved)
    return attempt
