"""What a data file says of itself: rows, card, golds, repeated prompts, sources. Quick for any number of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from omegaconf import DictConfig

from data_prep.card import Card, read_card
from recipe.run_identity import file_list
from reward.gold import check_gold, check_parquet

KEYS = ("train_files", "val_files")
LOOKED_AT = 100_000  # rows in which repeated prompts are looked for


@dataclass(frozen=True)
class DataFacts:
    """One parquet file. `repeated` and `sources` are of the first `LOOKED_AT` rows; `card` is None without one."""

    path: Path
    rows: int
    card: Card | None
    repeated: int
    sources: tuple[str, ...]


def files(config: DictConfig, key: str) -> list[Path]:
    """Paths of `data.train_files` or `data.val_files`."""
    return [Path(path) for path in file_list(config.data[key])]


def read(path: Path) -> DataFacts:
    """Read the facts of a file, golds checked.

    Raises:
        ValueError: the file or its card is broken or they do not belong together, or a gold cannot be graded.
    """
    status = path.stat()
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, _size: int, _mtime_ns: int) -> DataFacts:
    try:
        reader = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is no readable parquet file ({error}): prepare it again") from error
    names = reader.schema_arrow.names
    check_golds(path, reader)
    repeated = count_repeated(reader, path) if "prompt" in names else 0
    return DataFacts(path, reader.metadata.num_rows, read_card(path), repeated, sources(reader, names, path))


def check_golds(path: Path, reader: pq.ParquetFile) -> None:
    """Check each distinct gold once; a bad one is then looked up by `reward.gold`, whose message names its row."""
    try:
        seen = {
            gold
            for batch in reader.iter_batches(batch_size=1 << 16, columns=["reward_model.ground_truth"])
            for gold in pc.unique(pc.struct_field(batch.column(0), [0])).to_pylist()
        }
        for gold in seen:
            check_gold(gold)
    except (ValueError, pa.ArrowException, IndexError):
        check_parquet(str(path))
        raise


def count_repeated(reader: pq.ParquetFile, path: Path) -> int:
    """Rows whose prompt stood in an earlier row, among the first `LOOKED_AT`."""
    prompts: set[int] = set()
    rows = 0
    for batch in _first(reader, "prompt"):
        for number, messages in enumerate(batch.column(0).to_pylist(), start=rows):
            try:
                if len(messages) == 0:
                    raise TypeError("no message")
                prompts.add(hash(tuple((m["role"], m["content"]) for m in messages)))
            except (TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}: row {number}: prompt={messages!r} is not a list of messages with role and content: drop "
                    "the row, or write the file with python -m data_prep.prepare"
                ) from error
        rows += batch.num_rows
    return rows - len(prompts)


def sources(reader: pq.ParquetFile, names: list[str], path: Path) -> tuple[str, ...]:
    """Distinct values of `data_source`, sorted.

    Raises:
        ValueError: a row has none; the message names it.
    """
    if "data_source" not in names:
        return ()
    found: set[str] = set()
    rows = 0
    for batch in _first(reader, "data_source"):
        column = batch.column(0)
        if column.null_count:
            raise ValueError(
                f"{path}: row {rows + column.is_null().index(True).as_py()}: data_source=None: name a source, such as "
                "math_dapo, or write the file with python -m data_prep.prepare"
            )
        found.update(map(str, pc.unique(column).to_pylist()))
        rows += batch.num_rows
    return tuple(sorted(found))


def _first(reader: pq.ParquetFile, column: str) -> Iterator[pa.RecordBatch]:
    """Batches of a column that are its first `LOOKED_AT` rows."""
    left = LOOKED_AT
    for batch in reader.iter_batches(batch_size=1 << 14, columns=[column]):
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
