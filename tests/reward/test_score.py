"""The command line: last line JSON, rates by hand, malformed lines named by number."""

import json

import pytest

from reward.score import main

ROWS = [
    {"response": "Answer: 34", "gold": "34", "expected": True, "kind": "a", "id": "1"},
    {"response": "Answer: 35", "gold": "34", "expected": False, "kind": "a"},
    {"response": "34", "gold": "34", "expected": True, "kind": "b"},
    {"response": "Answer: 34", "gold": "34", "expected": False, "kind": "b"},
    {"response": "Answer: 34", "gold": "34", "expected": False, "kind": "ambiguous"},
    {"response": "Answer: 34", "gold": "34"},
]


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")
    return str(path)


def test_summary(tmp_path, capsys):
    assert main([write(tmp_path / "cases.jsonl", ROWS), "--show", "wrong"]) == 0
    *shown, last = capsys.readouterr().out.strip().splitlines()
    summary = json.loads(last)
    assert (summary["n"], summary["scored"], summary["mode"]) == (4, 6, "strict")
    assert (summary["accuracy"], summary["precision"], summary["recall"]) == (0.5, 0.5, 0.5)
    assert summary["false_positive_rate"] == 0.5
    assert summary["by_kind"]["a"]["accuracy"] == 1.0
    assert summary["us_per_call"] > 0
    assert [json.loads(line)["kind"] for line in shown] == ["b", "b", "ambiguous"]


@pytest.mark.parametrize("mode", ["verl_compat", "tutorial"])
def test_modes(tmp_path, capsys, mode):
    assert main([write(tmp_path / "cases.jsonl", ROWS), "--mode", mode]) == 0
    assert json.loads(capsys.readouterr().out.strip().splitlines()[-1])["mode"] == mode


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        '{"gold": "3"}',
        '{"response": 3, "gold": "3"}',
        '{"response": "x"}',
        '{"response": "", "gold": "3", "expected": 1}',
    ],
)
def test_a_malformed_line_is_named(tmp_path, capsys, line):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line + "\n", encoding="utf-8")
    assert main([str(path)]) == 2
    assert "bad.jsonl:2:" in capsys.readouterr().err


def test_a_missing_file_is_an_error(tmp_path, capsys):
    assert main([str(tmp_path / "absent.jsonl")]) == 2
    assert "absent.jsonl" in capsys.readouterr().err
