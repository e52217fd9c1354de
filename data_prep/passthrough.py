"""`--keep_repeats`: every row of a DAPO-layout parquet as it is, checked but not changed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.answers import canonical
from data_prep.errors import DataError
from data_prep.files import check_columns
from data_prep.grouping import FirstSeen
from data_prep.parquet_rows import open_parquet, parquet_batches
from data_prep.parts import Part
from data_prep.readers import read_chunks
from data_prep.schema import COLUMNS
from data_prep.sources.base import Source
from data_prep.writer import writing


def copy_rows(source: Source, part: Part, temporary: Path, output: Path) -> int:
    """Write the five columns of a part's parquet files, types and values as they are; return the number of rows.

    Raises:
        DataError: a file is not in the layout, or a row of it could not be used without a change.
    """
    if not set(COLUMNS) - {"extra_info"} <= set(source.columns) or any(p.suffix != ".parquet" for p in part.paths):
        raise DataError("keep_repeats needs parquet in the layout of DAPO's files", remedy="Leave --keep_repeats out")
    rows, writer = 0, None
    for path in part.paths:
        _check(source, path)
        file = open_parquet(path)
        check_columns(path, file.schema_arrow.names, COLUMNS)
        schema = pa.schema([file.schema_arrow.field(name) for name in COLUMNS])
        with writing(output):
            writer = writer or pq.ParquetWriter(temporary, schema, compression="zstd")
            for _, batch in parquet_batches(path, file, COLUMNS):
                writer.write_batch(batch.select(COLUMNS))
                rows += batch.num_rows
    assert writer is not None, "a part of a source with columns has at least one file"
    with writing(output):
        writer.close()
    return rows


def _check(source: Source, path: Path) -> None:
    """Check every distinct row; a gold that would be written differently is refused, because nothing is changed."""
    assert source.parse is not None
    for chunk in read_chunks(path, source.columns, source.optional, seen=FirstSeen()):
        for number, row in chunk.rows:
            try:
                gold = source.parse(row).answer
                if canonical(gold, source.answers, source.answer_column) != gold:
                    raise DataError(f"gold {gold!r} is not canonical", column=source.answer_column)
            except DataError as error:
                raise error.at(path, number) from error
