"""Files that appear whole or not at all: written under a temporary name, synced, renamed when all of them are done."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.errors import DataError
from data_prep.schema import SCHEMA, check_row

ROW_GROUP = 8192  # rows; fixed, so that the bytes do not depend on how rows arrived


class AtomicFiles:
    """A set of files that replace their predecessors together at `commit`. Use it through `atomic_files`.

    Each rename is atomic, the set is not: a crash in between leaves whole files of two runs, which the SHA-256 in the
    card tells apart.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[Path, Path]] = []
        self._scratch: list[Path] = []

    def reserve(self, path: Path) -> Path:
        """Return the temporary path that will become `path` at commit; its folder is made."""
        if path.is_dir():
            raise DataError("is a directory, cannot be written as a file", file=path)
        temporary = self.scratch(path)
        self._pending.append((temporary, path))
        return temporary

    def scratch(self, path: Path, word: str = "tmp") -> Path:
        """Return a temporary path beside `path` that is removed at the end of the block."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{word}")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._scratch.append(temporary)
        return temporary

    def text(self, path: Path, content: str) -> None:
        """Add a UTF-8 text file."""
        with writing(path):
            self.reserve(path).write_text(content, encoding="utf-8")

    def commit(self) -> None:
        """Sync every file and put it in place.

        Raises:
            DataError: the disk is full or a rename fails; names the file.
        """
        for temporary, path in self._pending:
            with writing(path):
                _sync(temporary)
        for temporary, path in self._pending:
            with writing(path):
                os.replace(temporary, path)
        for folder in {path.parent for _, path in self._pending}:
            _sync(folder)

    def clean(self) -> None:
        """Remove every temporary file that is still there."""
        for temporary in self._scratch:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_files() -> Iterator[AtomicFiles]:
    """Give a set of files; what was not committed when the block ends leaves no trace."""
    files = AtomicFiles()
    try:
        yield files
    finally:
        files.clean()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a DataError that names the file the user asked for."""
    try:
        yield
    except OSError as error:
        remedy = "An existing file of that name is as it was; make room or choose another --out"
        raise DataError(f"cannot be written ({error})", file=path, remedy=remedy) from error


class RowWriter:
    """Writes checked rows of the schema to one parquet file in row groups of a fixed size."""

    def __init__(self, temporary: Path, path: Path) -> None:
        self.path, self.rows = path, 0
        self._buffer: list[dict[str, Any]] = []
        with writing(path):
            self._writer = pq.ParquetWriter(temporary, SCHEMA, compression="zstd")

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Check rows and queue them; row numbers in errors are those of the output.

        Raises:
            DataError: a row does not follow the schema, or the file cannot be written.
        """
        for row in rows:
            try:
                check_row(row)
            except DataError as error:
                raise error.at(self.path, self.rows) from error
            self._buffer.append(row)
            self.rows += 1
            if len(self._buffer) == ROW_GROUP:
                self._flush()

    def close(self) -> None:
        """Write what is queued and the footer."""
        if self._buffer:
            self._flush()
        with writing(self.path):
            self._writer.close()

    def _flush(self) -> None:
        with writing(self.path):
            self._writer.write_table(pa.Table.from_pylist(self._buffer, schema=SCHEMA))
        self._buffer.clear()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
