"""`python -m data_prep.inspect` counts what is in a file, ours or as published."""

from data_prep.inspect import SAMPLES, look, main
from tests.data_prep.conftest import dapo_row, write_jsonl, write_parquet, zhuzilin


def test_counts_of_a_published_layout(tmp_path, capsys):
    rows = [
        dapo_row("P?", "1"),
        dapo_row("P?", "1"),
        dapo_row("P?", "2"),
        dapo_row("Q" * 250, "0.5"),
        dapo_row("R", "x"),
    ]
    path = write_parquet(tmp_path / "a.parquet", rows)
    found = look(path)
    assert [found.rows, len(found.answers), len(found.conflicts)] == [5, 3, 1]
    assert found.kinds == {"integer": 3, "decimal": 1, "text": 1}
    assert found.lengths == {"< 100": 4, "< 300": 1}
    assert main([str(path)]) == 0
    said = capsys.readouterr().out
    assert "rows: 5, distinct problems: 3, repeated: 2" in said
    assert "ground_truth: string" in said
    assert "card: none" in said
    assert said.count("sample ") == SAMPLES


def test_a_prepared_file_shows_its_card(run, out, tmp_path, capsys):
    run("dapo_math_17k_jsonl", "--input", write_jsonl(tmp_path / "a.jsonl", zhuzilin(7)), "--template", "boxed")
    assert main([str(out / "dapo-math-17k.parquet")]) == 0
    said = capsys.readouterr().out
    assert "card: from dapo_math_17k_jsonl (revision None), template boxed" in said
    assert "sample 0: 'What is 0 plus one?' -> '1'" in said


def test_a_file_that_cannot_be_read_is_an_error(tmp_path, capsys):
    assert main([str(tmp_path / "no.parquet")]) == 2
    assert "does not exist" in capsys.readouterr().err
