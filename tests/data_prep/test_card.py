"""The card: what it says adds up, and reading it checks that it belongs to the file."""

import hashlib
import json

import pytest

from data_prep.card import read_card, rollout_steps
from data_prep.errors import DataError
from data_prep.tokens import statistics
from tests.data_prep.conftest import card_of, dapo_row, write_parquet


@pytest.fixture
def path(run, out, tmp_path):
    rows = [dapo_row("P?", "1"), dapo_row("P?", "1"), dapo_row("Q?", "2"), dapo_row("Q?", "3"), dapo_row("求?", "4")]
    source = write_parquet(tmp_path / "in.parquet", [*rows, *(dapo_row(f"R{i}?", "5") for i in range(4))])
    options = ("--conflicts", "drop", "--lang", "en", "--holdout", 1, "--train_batch_size", 2)
    assert run("dapo_math_17k", "--input", source, *options) == 0
    return out / "dapo-math-17k.parquet"


def test_rows_in_are_rows_written_and_rows_dropped(path, tmp_path):
    content = card_of(path)
    counts = content["counts"]
    assert counts["dropped"] == {"conflict": 2, "duplicate": 1, "language": 1}
    assert counts["rows_in"] == 9 == sum(counts["written"].values()) + sum(counts["dropped"].values())
    assert content["rows"] == counts["written"][path.name] == 4
    assert content["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    source = hashlib.sha256((tmp_path / "in.parquet").read_bytes()).hexdigest()
    assert content["source"]["inputs"] == [{"name": "in.parquet", "sha256": source}]
    assert content["rollout_steps"] == {"train_batch_size": 2, "one_pass": 2, "one_pass_of_rows_in": 4}
    assert content["recovered_from"] == {"answer": 6}
    assert set(content["versions"]) == {"data_prep", "python", "pyarrow", "numpy"}


def test_the_steps_of_the_repeated_and_the_distinct_file():
    assert rollout_steps(17_000, 1_790_000, 512)["one_pass"] == 33
    assert rollout_steps(17_000, 1_790_000, 512)["one_pass_of_rows_in"] == 3496


def test_reading_gives_what_a_trainer_stores(path):
    card = read_card(path)
    assert card.rows == 4
    assert card.template == "answer"
    assert card.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert card.card_sha256 == hashlib.sha256(card.path.read_bytes()).hexdigest()


def test_a_missing_card_is_none_and_a_missing_file_an_error(path):
    path.with_suffix(".card.json").unlink()
    assert read_card(str(path)) is None
    path.unlink()
    with pytest.raises(DataError, match="does not exist"):
        read_card(path)


def test_the_card_of_another_file_is_refused(path):
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DataError, match=r"describes a file with SHA-256 .*Prepare the data again"):
        read_card(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{", "is not JSON"), ("[]", "no data card"), (json.dumps({"format": 1, "rows": 3}), "lacks sha256, options")],
)
def test_what_is_no_card_is_refused(text, expected, path):
    path.with_suffix(".card.json").write_text(text)
    with pytest.raises(DataError, match=expected):
        read_card(path)


def test_token_statistics():
    assert statistics(list(range(1, 201))) == {"count": 200, "max": 200, "p99": 198, "mean": 100.5}
    assert statistics([7]) == {"count": 1, "max": 7, "p99": 7, "mean": 7.0}
    assert statistics([]) is None
