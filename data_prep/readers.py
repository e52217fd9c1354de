"""Rows of a parquet, jsonl or csv file, in chunks of bounded size, with errors that name file, row and column.

A row is a dictionary of the columns asked for; rows are counted from 0. Copies of earlier rows of a parquet file are
left out and counted, so that a file with many copies costs little (see `grouping.py`).
"""

import csv
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.errors import DataError
from data_prep.grouping import FirstSeen

BATCH = 131_072  # rows of a parquet file that are looked at together
CHUNK = 4096  # rows that become Python objects together
SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json", ".csv")
Row = dict[str, Any]


@dataclass(slots=True)
class Chunk:
    """`rows` to handle one by one, and the number of exact `copies` of earlier rows that went with them."""

    rows: list[tuple[int, Row]] = field(default_factory=list)
    copies: int = 0


def read_chunks(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    start: int = 0,
    stop: int | None = None,
    seen: FirstSeen | None = None,
) -> Iterator[Chunk]:
    """Yield the rows `start` to `stop` (not included) of a file, `columns` and those of `optional` that are there.

    Args:
        path: a file whose name ends in one of `SUFFIXES`.
        columns: top-level columns that must be there.
        optional: columns that may be missing, dotted for one field of a struct.
        start: first row.
        stop: row after the last one, None for the end of the file.
        seen: rows to leave out and count; None keeps all.

    Raises:
        DataError: the file cannot be read, is empty, lacks a column, or mixes types in one.
    """
    check_file(path)
    if path.suffix == ".parquet":
        return _parquet_chunks(path, columns, optional, start, stop, seen)
    return _text_chunks(path, columns, optional, start, stop)


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


def open_parquet(path: Path, dictionaries: bool = True) -> pq.ParquetFile:
    """Open a parquet file for streaming, strings as dictionaries.

    Raises:
        DataError: it is not a whole parquet file.
    """
    try:
        # An open per use: schema first, because reading as dictionaries is asked for by column path.
        schema = pq.read_metadata(path).schema
        texts = [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "BYTE_ARRAY"]
        return pq.ParquetFile(
            path, read_dictionary=texts if dictionaries else None, buffer_size=1 << 20, pre_buffer=False
        )
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"is not a readable parquet file ({error})", file=path) from error


def _parquet_chunks(
    path: Path, columns: Sequence[str], optional: Sequence[str], start: int, stop: int | None, seen: FirstSeen | None
) -> Iterator[Chunk]:
    file = open_parquet(path)
    names = file.schema_arrow.names
    check_columns(path, names, columns)
    wanted = [*columns, *(name for name in optional if _has_path(file, name))]
    if file.metadata.num_rows == 0:
        raise DataError("has no rows", file=path)
    if not wanted:
        raise DataError(f"has none of the columns {', '.join(optional)}; there are {names}", file=path)
    for first, batch in parquet_batches(path, file, wanted, start, stop):
        positions = range(batch.num_rows) if seen is None else seen.positions(batch).tolist()
        yield Chunk(copies=batch.num_rows - len(positions))
        for i in range(0, len(positions), CHUNK):
            part = positions[i : i + CHUNK]
            yield Chunk(list(zip((first + p for p in part), _to_rows(path, batch, first, part), strict=True)))


def _has_path(file: pq.ParquetFile, name: str) -> bool:
    paths = (file.schema.column(i).path for i in range(len(file.schema)))
    return any(path == name or path.startswith(f"{name}.") for path in paths)


def parquet_batches(
    path: Path, file: pq.ParquetFile, columns: Sequence[str], start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield `(number of its first row, batch)` for the rows `start` to `stop`.

    Raises:
        DataError: the file breaks off or is damaged; names the row up to which it could be read.
    """
    first = 0
    batches = _ahead(file.iter_batches(batch_size=BATCH, columns=list(columns)))
    while stop is None or first < stop:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"is damaged from here on ({error})", file=path, row=first) from error
        if batch is None:
            return
        low, high = max(start - first, 0), batch.num_rows if stop is None else min(stop - first, batch.num_rows)
        if low < high:
            yield first + low, batch.slice(low, high - low)
        first += batch.num_rows


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches while a thread already reads the next one."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _to_rows(path: Path, batch: pa.RecordBatch, first: int, positions: Sequence[int]) -> list[Row]:
    try:
        return batch.take(pa.array(positions, pa.int64())).to_pylist()
    except UnicodeDecodeError:
        return [_to_row(path, batch, first + p, p) for p in positions]


def _to_row(path: Path, batch: pa.RecordBatch, row: int, position: int) -> Row:
    found = {}
    for name in batch.schema.names:
        try:
            found[name] = batch[name][position].as_py()
        except UnicodeDecodeError as error:
            raise DataError(f"is not valid UTF-8 ({error})", file=path, row=row, column=name) from error
    return found


def _text_chunks(
    path: Path, columns: Sequence[str], optional: Sequence[str], start: int, stop: int | None
) -> Iterator[Chunk]:
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
