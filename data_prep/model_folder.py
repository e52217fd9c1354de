"""Hugging Face folders that our own commands make: each carries a mark, and only such a folder is ever replaced."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from data_prep.errors import DataError


def check_replaceable(out: Path, mark: str) -> None:
    """See that `out` is not there, or carries the file `mark` of the command that made it.

    Raises:
        DataError: it is somebody else's.
    """
    if out.exists() and not (out / mark).is_file():
        raise DataError(
            f"--out={out} exists and was not made by this command", remedy="nothing is overwritten: name another"
        )


def write_model(model: Any, tokenizer: Any, out: Path, mark: str, content: dict[str, Any]) -> None:
    """Write weights, tokenizer and `content` as the file `mark`, replacing `out` in one step once all is there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / mark).write_text(json.dumps(content, indent=1) + "\n")
    give_ordinary_modes(partial)
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def give_ordinary_modes(folder: Path) -> None:
    """Give the files below `folder` the mode of any new file: safetensors leaves its own to their owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o666 & ~mask)
