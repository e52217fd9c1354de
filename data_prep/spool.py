"""Records on disk between the two passes: the first finds conflicts, the second writes what is left."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.records import Record
from data_prep.writer import writing

CHUNK = 4096
_TYPES = {"source_index": pa.int64(), "prompt_tokens": pa.int64()}
_SCHEMA = pa.schema([(f.name, _TYPES.get(f.name, pa.string())) for f in fields(Record)])


class Spool:
    """Takes records in order and gives them back in order; holds one chunk of them in memory."""

    def __init__(self, path: Path, output: Path) -> None:
        """Open the temporary file `path`; a full disk is reported as one of `output`."""
        self._path, self._output = path, output
        self._buffer: list[dict] = []
        with writing(output):
            self._writer = pq.ParquetWriter(path, _SCHEMA, compression="lz4")

    def add(self, record: Record) -> None:
        """Queue one record."""
        self._buffer.append({name: getattr(record, name) for name in _SCHEMA.names})
        if len(self._buffer) == CHUNK:
            self._flush()

    def close(self) -> None:
        """End writing."""
        self._flush()
        with writing(self._output):
            self._writer.close()

    def __iter__(self) -> Iterator[Record]:
        """Yield the records; any number of times, after `close`."""
        with pq.ParquetFile(self._path) as file:
            for batch in file.iter_batches(batch_size=CHUNK):
                yield from (Record(**row) for row in batch.to_pylist())

    def _flush(self) -> None:
        with writing(self._output):
            self._writer.write_table(pa.Table.from_pylist(self._buffer, schema=_SCHEMA))
        self._buffer.clear()
