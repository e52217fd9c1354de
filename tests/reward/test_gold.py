"""Golds are refused with file, row and value before a run; graded or counted in it."""

import pytest

from reward.gold import canonical_gold, check_gold, check_golds, check_parquet


@pytest.mark.parametrize(
    "value", ["34", "-3", r"\frac{1}{2}", "A", "no solution", "[0,1)", "∞", r"\{1,2\}", "½", "none"]
)
def test_usable(value):
    assert check_gold(value) == value


@pytest.mark.parametrize(
    "value",
    [
        34,
        3.0,
        None,
        True,
        ["3"],
        b"3",
        "",
        "  ",
        "[INVALID]",
        "N/A",
        "nan",
        "None",
        "?",
        "...",
        "$Answer",
        "[ANS]",
        "\\frac{1}{2",
        "a\x0crac",
        "3\x00",
        "\ud800",
        "x" * 1001,
    ],
)
def test_refused(value):
    with pytest.raises(ValueError, match="ground truth"):
        check_gold(value)


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("033", "33"),
        ("34.0", "34"),
        ("+5", "5"),
        ("-0", "0"),
        ("\u22127", "-7"),
        ("$33$", "33"),
        ("1,234", "1234"),
        (" 8 ", "8"),
        (34, "34"),
        ("000", "0"),
        ("3.5", "3.5"),
        (r" \frac12 ", r"\frac12"),
        ("1,2", "1,2"),
    ],
)
def test_canonical(value, canonical):
    assert canonical_gold(value) == canonical


def row(gold):
    return {"reward_model": {"ground_truth": gold, "style": "rule"}}


def test_message_names_file_row_and_value():
    with pytest.raises(ValueError, match=r"train\.parquet: 2 of 4(.|\n)*row 1: .*34(.|\n)*row 3: .*INVALID"):
        check_golds([row("1"), row(34), row("3"), row("[INVALID]")], "train.parquet")
    with pytest.raises(ValueError, match="row 0"):
        check_golds([{"reward_model": None}])
    assert check_golds([row("1"), row("2")]) == 2


def test_parquet(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    good, bad, other = (str(tmp_path / f"{name}.parquet") for name in ("good", "bad", "other"))
    pq.write_table(pa.Table.from_pylist([row("1"), row("x")]), good)
    pq.write_table(pa.Table.from_pylist([row("1"), row("")]), bad)
    pq.write_table(pa.Table.from_pylist([{"label": "1"}]), other)
    assert check_parquet(good) == 2
    with pytest.raises(ValueError, match=r"bad\.parquet.*\n.*row 1"):
        check_parquet(bad)
    with pytest.raises(ValueError, match="no column reward_model"):
        check_parquet(other)
