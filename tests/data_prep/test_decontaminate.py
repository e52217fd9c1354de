"""What counts as overlap with an evaluation file, and what must not."""

import pytest

from data_prep.decontaminate import Contamination, evaluation_problems, words
from data_prep.errors import DataError
from tests.data_prep.conftest import dapo_row, write_jsonl, write_parquet

MASKED = "contaminated_13gram"
EVAL = "Find the largest possible real part of (75+117i)z+(96+144i)/z where z is a complex number with |z|=4."


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (EVAL, "contaminated_exact"),
        (EVAL.lower().replace(" ", "  "), "contaminated_exact"),
        (EVAL.replace("(", "\\left(").replace("left", ""), "contaminated_exact"),
        ("Please do this. " + EVAL + " Thanks.", "contaminated_13gram"),
        (EVAL.replace("75", "7").replace("117", "11"), "contaminated_13gram"),
        # Every number is another one, so that no 13 words in a row are equal as they stand.
        ("Find the largest possible real part of (7+1i)z+(9+4i)/z where z is a complex number with |z|=5.", MASKED),
        ("Find the largest possible real part of z.", None),
        ("12+34=?", None),
    ],
)
def test_overlap(problem, reason):
    assert Contamination([EVAL]).reason(problem) == reason


def test_lists_of_numbers_are_not_all_alike():
    fibonacci = "1 1 2 3 5 8 13 21 34 55 89 144 233 377"
    squares = "1 4 9 16 25 36 49 64 81 100 121 144 169 196"
    assert Contamination([fibonacci]).reason(squares) is None
    assert Contamination([fibonacci]).reason("Continue: " + fibonacci) == "contaminated_13gram"


def test_short_problems_are_compared_by_their_characters():
    assert Contamination(["12+34=?"]).reason("12*34=?") is None
    assert Contamination(["12+34=?"]).reason("12 + 34 = ?") == "contaminated_exact"


def test_a_chinese_character_is_a_word():
    assert words("求x的值 2024") == ["求", "x", "的", "值", "2024"]


def test_the_template_of_an_evaluation_file_is_no_overlap(tmp_path):
    wrapped = write_parquet(tmp_path / "e.parquet", [dapo_row("P one?", "1"), dapo_row("P two?", "2", raw=True)])
    assert list(evaluation_problems(wrapped)) == ["P one?", "P two?"]
    plain = write_jsonl(tmp_path / "e.jsonl", [{"question": "Q?", "answer": "1"}])
    assert list(evaluation_problems(plain)) == ["Q?"]


def test_a_file_without_problems_is_named(tmp_path):
    with pytest.raises(DataError, match=r"e.jsonl, row 0: has none of the problem columns"):
        list(evaluation_problems(write_jsonl(tmp_path / "e.jsonl", [{"text": "Q?"}])))
    with pytest.raises(DataError, match=r"e.parquet: has none of the columns"):
        list(evaluation_problems(write_parquet(tmp_path / "e.parquet", [{"text": "Q?"}])))
