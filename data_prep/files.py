"""What the readers share: chunks of rows, and the checks that a file and its columns must pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.errors import DataError

CHUNK = 4096  # rows that become Python objects together
SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".csv")
Row = dict[str, Any]


@dataclass(slots=True)
class Chunk:
    """`rows` to handle one by one, and the number of exact `copies` of earlier rows that went with them."""

    rows: list[tuple[int, Row]] = field(default_factory=list)
    copies: int = 0


def check_file(path: Path) -> None:
    """Refuse what is not a non-empty regular file of a known kind."""
    if path.is_dir():
        raise DataError("is a directory", file=path, remedy="Name one file in it")
    if not path.is_file():
        raise DataError("does not exist", file=path)
    if path.suffix not in SUFFIXES:
        raise DataError(f"has the unknown suffix {path.suffix!r}", file=path, remedy=f"Use one of {SUFFIXES}")
    if path.stat().st_size == 0:
        raise DataError("is empty", file=path)


def check_columns(path: Path, present: Sequence[str], columns: Sequence[str], row: int | None = None) -> None:
    """Refuse a file, or a row of a text file, without one of `columns`."""
    for name in columns:
        if name not in present:
            raise DataError(f"is missing; there are {sorted(present)}", file=path, row=row, column=name)
