"""Samples on disk: one JSON line a sample, appended as they finish, keyed by (problem, sample).

`NAME.jsonl` has the samples, `NAME.settings.json` what they were asked with, `NAME.summary.json` what came out.
"""

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from eval.problems import Problem
from recipe.provenance import write_text_atomic

Key = tuple[int, int]
Line = dict[str, Any]
_TYPES = {"problem": int, "sample": int, "text": str, "gold": str, "correct": bool}  # what every line must have


def key_of(line: Line) -> Key:
    """`(problem, sample)` of a line."""
    return line["problem"], line["sample"]


def sample_line(problem: Problem, sample: int, text: str, finish_reason: str | None, tokens: int | None) -> Line:
    """What the line of every sample has, however it was generated."""
    return {
        "problem": problem.index,
        "sample": sample,
        "digest": problem.digest,
        "gold": problem.gold,
        "text": text,
        "finish_reason": finish_reason,
        "completion_tokens": tokens,
    }


def settings_path(out: Path) -> Path:
    """Where the settings of a samples file are; a ValueError when its name does not end in `.jsonl`."""
    return _beside(out, "settings")


def summary_path(out: Path) -> Path:
    """Where the summary of a samples file is; a ValueError when its name does not end in `.jsonl`."""
    return _beside(out, "summary")


def _beside(out: Path, what: str) -> Path:
    """`NAME.what.json` of `NAME.jsonl`. Any other ending could be a part of the name: `Qwen2.5-7B`, `Qwen2.5-32B`."""
    if out.suffix != ".jsonl":
        raise ValueError(f"{out}: a samples file is called NAME.jsonl; say {out.name}.jsonl")
    return out.with_suffix(f".{what}.json")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an indented JSON object atomically."""
    write_text_atomic(path, json.dumps(content, indent=1) + "\n")


def read_settings(out: Path) -> dict[str, Any]:
    """Settings beside a samples file; empty when there are none.

    Raises:
        ValueError: the settings file is damaged.
    """
    path = settings_path(out)
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}); move it away together with {out.name}") from error


def read_lines(path: Path) -> tuple[dict[Key, Line], int]:
    """Complete lines of a samples file by key, and the number of bytes they take.

    What follows the last line end was torn by a kill and is left out.

    Raises:
        ValueError: the file is missing, a complete line is no sample, or a key stands twice.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    lines: dict[Key, Line] = {}
    size = 0
    with path.open("rb") as f:
        for number, raw in enumerate(f, 1):
            if not raw.endswith(b"\n"):
                break
            line = _parse(raw, f"{path}:{number}")
            if key_of(line) in lines:
                raise ValueError(f"{path}:{number}: problem {line['problem']}, sample {line['sample']} stands twice")
            lines[key_of(line)] = line
            size += len(raw)
    return lines, size


def _parse(raw: bytes, where: str) -> Line:
    try:
        line = json.loads(raw)
    except ValueError as error:
        raise ValueError(f"{where}: not JSON ({error}); mend or delete the line") from error
    for key, kind in _TYPES.items():
        if not isinstance(line, dict) or not isinstance(line.get(key), kind):
            raise ValueError(f"{where}: no sample of an evaluation, {key!r} is missing or no {kind.__name__}")
    return line


class SampleFile:
    """A samples file held by one process: earlier lines are kept, new ones appended. A context manager.

    Attributes:
        lines: all samples in the file by key.
    """

    def __init__(self, path: Path) -> None:
        """Open or create `path` and read it.

        Raises:
            ValueError: the file is damaged, another process is writing it, or its name does not end in `.jsonl`.
        """
        settings_path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = _locked(path.open("ab"), path)
        try:
            self.lines, size = read_lines(path)
        except ValueError:
            self._file.close()
            raise
        self._file.truncate(size)

    def __enter__(self) -> "SampleFile":
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Bring everything to the disk and release the file."""
        os.fsync(self._file.fileno())
        self._file.close()

    def append(self, line: Line) -> None:
        """Add one sample; once this returns, a kill of this process does not lose it."""
        assert key_of(line) not in self.lines
        self._file.write(_dump(line))
        self._file.flush()
        self.lines[key_of(line)] = line

    def rewrite(self, lines: Iterable[Line]) -> None:
        """Replace all lines at once; a crash leaves the old file or the new one."""
        partial = self.path.with_name(self.path.name + ".partial")
        new = _locked(partial.open("wb"), partial)
        self.lines = {key_of(line): line for line in lines}
        new.writelines(map(_dump, self.lines.values()))
        new.flush()
        os.fsync(new.fileno())
        partial.replace(self.path)
        self._file.close()
        self._file = new


def _dump(line: Line) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _locked(file: IO[bytes], path: Path) -> IO[bytes]:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ValueError(
            f"{path} is being written by another evaluation; wait for it or choose another --out"
        ) from error
    return file
