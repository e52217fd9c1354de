"""Input that cannot be used: the message names file, row and column, and an earlier output stays as it was."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data_prep.conftest import dapo_row, write_jsonl, write_parquet, zhuzilin

GOOD = {"prompt": "What is 1+1?", "label": "2"}


@pytest.fixture
def kept(run, out, tmp_path):
    """An earlier output; gives a check that it is untouched and that nothing lies around."""
    assert run("dapo_math_17k_jsonl", "--input", write_jsonl(tmp_path / "good.jsonl", zhuzilin(3))) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(before) == 2

    def check() -> None:
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before

    return check


def jsonl(tmp_path, *lines: bytes):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"prompt": "What is 1+1?", "label": "2"}\n' + b"\n".join(lines) + b"\n")
    return path


BAD_LINES = {
    "no gold": (b'{"prompt": "Q?", "label": null}', "column 'label': needs a gold"),
    "empty gold": (b'{"prompt": "Q?", "label": " "}', "column 'label'"),
    "placeholder": (b'{"prompt": "Q?", "label": "[INVALID]"}', "column 'label'"),
    "no number": (b'{"prompt": "Q?", "label": "x=3"}', "column 'label': needs a gold of kind integer, has 'x=3'"),
    "gold column missing": (b'{"prompt": "Q?"}', "column 'label': is missing"),
    "no problem": (b'{"prompt": null, "label": "1"}', "column 'prompt'"),
    "two turns": (
        b'{"prompt": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "label": "1"}',
        "column 'prompt'",
    ),
    "mixed types in the gold": (b'{"prompt": "Q?", "label": 3}', "column 'label': mixes types: str in earlier rows"),
    "mixed types in the prompt": (b'{"prompt": [], "label": "3"}', "column 'prompt': mixes types"),
    "not UTF-8": (b'{"prompt": "Q\xff?", "label": "3"}', "column 'prompt': is not valid UTF-8"),
    "lone surrogate": (b'{"prompt": "Q\\ud800?", "label": "3"}', "column 'prompt': is not valid UTF-8"),
    "not JSON": (b'{"prompt": "Q?", "label": ', "is not JSON"),
    "not an object": (b'["Q?", "3"]', "is not a JSON object"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_named(case, kept, fails, tmp_path):
    line, expected = BAD_LINES[case]
    said = fails("dapo_math_17k_jsonl", "--input", jsonl(tmp_path, line), "--name", "dapo-math-17k")
    assert "bad.jsonl, row 1" in said
    assert "line 2" in said or "label" in said or "prompt" in said
    assert expected in said
    kept()


def damaged(row: dict, column: str, value) -> dict:
    target, names = row, column.split(".")
    for name in names[:-1]:
        target = target[name]
    target[names[-1]] = value
    return row


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("reward_model.ground_truth", None),
        ("reward_model.ground_truth", "[INVALID]"),
        ("reward_model.style", None),
        ("data_source", None),
        ("ability", ""),
        ("prompt", None),
        ("prompt", []),
    ],
)
def test_a_bad_parquet_row_is_named_even_after_many_copies(column, value, kept, fails, tmp_path):
    rows = [dapo_row("Q?", "1") for _ in range(100)] + [damaged(dapo_row("Q?", "1"), column, value)]
    said = fails("dapo_math_17k", "--input", write_parquet(tmp_path / "bad.parquet", rows))
    assert f"bad.parquet, row 100, column '{column}'" in said
    kept()


def test_bytes_that_are_not_utf8_in_a_parquet_are_named(kept, fails, tmp_path):
    raw = pa.array([b"fine", b"bad\xff"]).cast(pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    table = pa.table({"q": text, "a": ["1", "2"]})
    pq.write_table(table, tmp_path / "bad.parquet")
    said = fails("file", "--input", tmp_path / "bad.parquet", "--problem_column", "q", "--answer_column", "a")
    assert "bad.parquet, row 1, column 'q': is not valid UTF-8" in said
    kept()


def test_a_truncated_parquet_is_named(kept, fails, tmp_path):
    path = write_parquet(tmp_path / "bad.parquet", [dapo_row("Q?", "1")])
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}: is not a readable parquet file" in fails("dapo_math_17k", "--input", path)
    kept()


def test_a_parquet_damaged_inside_is_named_with_the_row(kept, fails, tmp_path):
    path = tmp_path / "bad.parquet"
    rows = [dapo_row(f"Question number {i} of many?", str(i)) for i in range(500)]
    pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[1000:2000] = bytes(1000)
    path.write_bytes(data)
    assert f"{path}, row 0: is damaged" in fails("dapo_math_17k", "--input", path)
    kept()


def test_wrong_columns_are_listed(kept, fails, tmp_path):
    path = write_parquet(tmp_path / "bad.parquet", [{"question": "Q?", "answer": "1"}])
    assert "column 'data_source': is missing; there are ['answer', 'question']" in fails(
        "dapo_math_17k", "--input", path
    )
    kept()


def test_a_field_missing_in_a_struct_is_named(kept, fails, tmp_path):
    row = dapo_row("Q?", "1")
    row["reward_model"] = {"style": "rule"}
    said = fails("dapo_math_17k", "--input", write_parquet(tmp_path / "bad.parquet", [row]))
    assert "row 0, column 'reward_model.ground_truth'" in said
    kept()


@pytest.mark.parametrize(
    ("name", "content"), [("a.parquet", b""), ("a.jsonl", b""), ("a.jsonl", b"\n \n"), ("a.csv", b"")]
)
def test_an_empty_file_is_named(name, content, kept, fails, tmp_path):
    (tmp_path / name).write_bytes(content)
    said = fails("dapo_math_17k_jsonl", "--input", tmp_path / name)
    assert name in said
    assert "is empty" in said or "has no rows" in said
    kept()


def test_files_without_rows_are_named(kept, fails, tmp_path):
    pq.write_table(
        pa.table({"prompt": pa.array([], pa.string()), "label": pa.array([], pa.string())}), tmp_path / "a.parquet"
    )
    (tmp_path / "a.csv").write_text("prompt,label\n")
    for name in ("a.parquet", "a.csv"):
        assert f"{name}: has no rows" in fails("dapo_math_17k_jsonl", "--input", tmp_path / name)
    kept()


def test_a_directory_a_missing_file_and_an_unknown_suffix_are_named(kept, fails, tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    for name, expected in ((".", "is a directory"), ("no.jsonl", "does not exist"), ("a.xlsx", "unknown suffix")):
        assert expected in fails("dapo_math_17k_jsonl", "--input", tmp_path / name)
    kept()


def test_a_csv_row_with_other_cells_is_named(kept, fails, tmp_path):
    (tmp_path / "a.csv").write_text("prompt,label\nQ?,1\nP?\n")
    assert "a.csv, row 1 (line 3): has another number of cells" in fails(
        "dapo_math_17k_jsonl", "--input", tmp_path / "a.csv"
    )
    kept()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--max_prompt_tokens", "5"), "max_prompt_tokens=5 needs a tokenizer"),
        (("--split", "9:3"), "split='9:3' is no slice"),
        (("--split", "a=0:1", "a=1:2"), "two outputs have one name"),
        (("--name", "x", "--split", "a=0:1", "b=1:2"), "would name 2 files"),
        (("--holdout", "-1"), "holdout=-1 is too small"),
        (("--keep_repeats",), "keep_repeats needs parquet in the layout"),
    ],
)
def test_options_that_do_not_fit_are_named(args, expected, kept, fails, tmp_path):
    assert expected in fails("dapo_math_17k_jsonl", "--input", tmp_path / "good.jsonl", *args)
    kept()
