"""Exact copies are found in Arrow batches exactly as comparing Python rows finds them."""

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.grouping import FirstSeen

TEXT = st.sampled_from(["", "a", "b", "ab", "é", "\x00null", "1"])
MESSAGE = st.fixed_dictionaries({"content": TEXT | st.none(), "role": st.sampled_from(["user", "system"])})
ROW = st.fixed_dictionaries(
    {
        "a": TEXT | st.none(),
        "n": st.integers(0, 2) | st.none(),
        "prompt": st.lists(MESSAGE, max_size=2) | st.none(),
        "model": st.fixed_dictionaries({"gold": TEXT | st.none()}) | st.none(),
    }
)
TYPE = pa.schema(
    [
        ("a", pa.string()),
        ("n", pa.int64()),
        ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
        ("model", pa.struct([("gold", pa.string())])),
    ]
)


def by_hand(rows: list[dict]) -> list[int]:
    return [i for i, row in enumerate(rows) if row not in rows[:i]]


@settings(max_examples=150, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=12), st.integers(1, 5))
def test_first_rows_over_batches_are_those_of_a_row_by_row_comparison(rows, size):
    seen, found = FirstSeen(), []
    for start in range(0, len(rows), size):
        batch = pa.RecordBatch.from_pylist(rows[start : start + size], schema=TYPE)
        found += [start + int(position) for position in seen.positions(batch)]
    assert found == by_hand(rows)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(MESSAGE, min_size=2, max_size=2), min_size=1, max_size=8))
def test_lists_of_one_length_are_compared_turn_by_turn(prompts):
    rows = [{"prompt": prompt} for prompt in prompts]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([TYPE.field("prompt")]))
    assert FirstSeen().positions(batch).tolist() == by_hand(rows)


def test_a_dictionary_column_of_a_sliced_parquet_batch_counts_from_its_own_rows(tmp_path):
    texts = ["x", "y", "x", "z", None, "y", None]
    pq.write_table(pa.table({"t": texts}), tmp_path / "t.parquet")
    file = pq.ParquetFile(tmp_path / "t.parquet", read_dictionary=["t"])
    batch = next(file.iter_batches()).slice(2)
    assert pa.types.is_dictionary(batch["t"].type)
    assert FirstSeen().positions(batch).tolist() == [0, 1, 2, 3]
