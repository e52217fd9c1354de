"""Rows of a parquet file: streamed in Arrow batches, copies left out before they become Python objects."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.errors import DataError
from data_prep.files import CHUNK, Chunk, Row, check_columns
from data_prep.grouping import FirstSeen

BATCH = 262_144  # rows that are looked at together in a file of copies, where a batch is small in memory
SMALL_BATCH = 16_384  # in any other file
PEEK = 65_536  # rows that tell which of the two a file is


def open_parquet(path: Path, dictionaries: bool = False) -> pq.ParquetFile:
    """Open a parquet file for streaming; strings as dictionaries where asked for.

    A dictionary holds every distinct string of a row group, whatever the size of the batches: small for a file of
    copies, the whole file for one of different rows.

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


def parquet_chunks(
    path: Path, columns: Sequence[str], optional: Sequence[str], start: int, stop: int | None, seen: FirstSeen | None
) -> Iterator[Chunk]:
    """Yield what `readers.read_chunks` promises, of a parquet file."""
    file = open_parquet(path)
    names = file.schema_arrow.names
    check_columns(path, names, columns)
    wanted = [*columns, *(name for name in optional if _has_path(file, name))]
    if file.metadata.num_rows == 0:
        raise DataError("has no rows", file=path)
    if not wanted:
        raise DataError(f"has none of the columns {', '.join(optional)}; there are {names}", file=path)
    copies = seen is not None and _repeats(path, file, wanted)
    seen, size = (seen, BATCH) if copies else (None, SMALL_BATCH)
    for first, batch in parquet_batches(path, open_parquet(path, copies), wanted, start, stop, size):
        positions = range(batch.num_rows) if seen is None else seen.positions(batch).tolist()
        yield Chunk(copies=batch.num_rows - len(positions))
        for i in range(0, len(positions), CHUNK):
            part = positions[i : i + CHUNK]
            yield Chunk(list(zip((first + p for p in part), _to_rows(path, batch, first, part), strict=True)))


def _repeats(path: Path, file: pq.ParquetFile, columns: list[str]) -> bool:
    """Tell whether at least half of the first rows are copies of others, so that looking for copies pays."""
    with _damage(path, 0):
        batch = next(file.iter_batches(batch_size=PEEK, columns=columns))
    return 2 * len(FirstSeen().positions(batch)) <= batch.num_rows


@contextmanager
def _damage(path: Path, row: int) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"is damaged from here on ({error})", file=path, row=row) from error


def _has_path(file: pq.ParquetFile, name: str) -> bool:
    paths = (file.schema.column(i).path for i in range(len(file.schema)))
    return any(path == name or path.startswith(f"{name}.") for path in paths)


def parquet_batches(
    path: Path,
    file: pq.ParquetFile,
    columns: Sequence[str],
    start: int = 0,
    stop: int | None = None,
    size: int = SMALL_BATCH,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield `(number of its first row, batch)` for the rows `start` to `stop`, `size` rows or fewer a batch.

    Raises:
        DataError: the file breaks off or is damaged; names the row up to which it could be read.
    """
    first = 0
    batches = _ahead(file.iter_batches(batch_size=size, columns=list(columns)))
    while stop is None or first < stop:
        with _damage(path, first):
            batch = next(batches, None)
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
