"""Rows of a jsonl or csv file: read line by line as bytes, so that what is not UTF-8 is found in its cell."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from data_prep.errors import DataError
from data_prep.files import CHUNK, Chunk, Row, check_columns


def text_chunks(
    path: Path, columns: Sequence[str], optional: Sequence[str], start: int, stop: int | None
) -> Iterator[Chunk]:
    """Yield what `readers.read_chunks` promises, of a jsonl or csv file."""
    types: dict[str, type] = {}
    wanted = [name.split(".")[0] for name in (*columns, *optional)]
    chunk, row = Chunk(), -1
    with path.open("rb") as handle:
        for row, (place, whole) in enumerate(
            _csv_rows(path, handle) if path.suffix == ".csv" else _json_rows(path, handle)
        ):
            if stop is not None and row >= stop:
                break
            check_columns(path, list(whole), columns, row)
            found = {name: whole[name] for name in wanted if name in whole}
            _check_cells(path, f"{row} ({place})", found, types)
            if row < start:
                continue
            chunk.rows.append((row, found))
            if len(chunk.rows) == CHUNK:
                yield chunk
                chunk = Chunk()
    if row < 0:
        raise DataError("has no rows", file=path)
    yield chunk


def _json_rows(path: Path, handle: BinaryIO) -> Iterator[tuple[str, Row]]:
    lines = (line for line in enumerate(handle, start=1) if line[1].strip())
    for row, (number, line) in enumerate(lines):
        place = f"line {number}"
        try:
            value = json.loads(line.decode("utf-8", errors="surrogateescape"))
        except json.JSONDecodeError as error:
            remedy = "Write one JSON object a line"
            raise DataError(f"is not JSON ({error})", file=path, row=f"{row} ({place})", remedy=remedy) from error
        if not isinstance(value, dict):
            raise DataError(f"is not a JSON object: {value!r:.60}", file=path, row=f"{row} ({place})")
        yield place, value


def _csv_rows(path: Path, handle: BinaryIO) -> Iterator[tuple[str, Row]]:
    lines = (line.decode("utf-8", errors="surrogateescape") for line in handle)
    first = next(lines).removeprefix("\ufeff")
    reader = csv.DictReader(_chain(first, lines), strict=True)
    row = 0
    while True:
        try:
            found = next(reader, None)
        except csv.Error as error:
            raise DataError(f"is not CSV ({error})", file=path, row=f"{row} (line {reader.line_num})") from error
        if found is None:
            return
        place = f"line {reader.line_num}"
        if None in found or None in found.values():
            raise DataError("has another number of cells than the header", file=path, row=f"{row} ({place})")
        yield place, found
        row += 1


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _check_cells(path: Path, row: str, cells: Row, types: dict[str, type]) -> None:
    """Refuse bytes that are not UTF-8 and a column whose type changes; a null changes nothing here."""
    for name, value in cells.items():
        if not _is_text_clean(value):
            raise DataError("is not valid UTF-8", file=path, row=row, column=name)
        kind = float if type(value) is int else type(value)
        if value is not None and types.setdefault(name, kind) is not kind:
            problem = (
                f"mixes types: {types[name].__name__} in earlier rows, {type(value).__name__} here ({value!r:.60})"
            )
            raise DataError(problem, file=path, row=row, column=name)


def _is_text_clean(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, dict):
        return all(map(_is_text_clean, value.values()))
    return not isinstance(value, list) or all(map(_is_text_clean, value))
