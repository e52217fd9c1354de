"""Rows of a parquet, jsonl or csv file, in chunks of bounded size, with errors that name file, row and column.

A row is a dictionary of the columns asked for; rows are counted from 0. Where most rows of a parquet file are copies of
earlier ones, the copies are left out and counted, so that such a file costs little (see `grouping.py`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from data_prep.files import Chunk, check_file
from data_prep.grouping import FirstSeen
from data_prep.parquet_rows import parquet_chunks
from data_prep.text_rows import text_chunks


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
        seen: rows that may be left out and counted when they come again; None keeps all.

    Raises:
        DataError: the file cannot be read, is empty, lacks a column, or mixes types in one.
    """
    check_file(path)
    if path.suffix == ".parquet":
        return parquet_chunks(path, columns, optional, start, stop, seen)
    return text_chunks(path, columns, optional, start, stop)
