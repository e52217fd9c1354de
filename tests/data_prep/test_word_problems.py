"""Made-up word problems: right, distinct, seeded, and no sum of one side is on the other."""

import re

import pytest

from data_prep.sources.word_problems import problems
from tests.data_prep.conftest import rows_of

MORE = ("now?", "in all?", "together?")


def read(text: str) -> tuple[str, int, int]:
    """The operator, by how the question ends, and the two numbers, the smaller one first."""
    low, high = sorted(map(int, re.findall(r"\d+", text)))
    return "+" if text.endswith(MORE) else "-", low, high


def test_answers_are_right_and_problems_distinct():
    made = problems(1, 400, 30, min_value=1, operators="+-")
    for text, answer, *_, solution in made:
        operator, low, high = read(text)
        assert int(answer) == (low + high if operator == "+" else high - low), text
        left, right = solution.split(" = ")
        assert right == answer
        assert sorted(map(int, left.split(f" {operator} "))) == [low, high]
        assert 1 <= low <= high <= 30
        assert "{" not in text
    assert len({problem.problem for problem in made}) == 400
    assert {read(problem.problem)[0] for problem in made} == {"+", "-"}


def test_the_sides_share_no_sum_whatever_the_seeds():
    def sums(seed, count, split):
        return {read(made.problem) for made in problems(seed, count, 30, min_value=1, operators="+-", split=split)}

    test = sums(2, 120, "test")
    assert not test & (sums(0, 1500, "train") | sums(1, 1500, "train"))
    assert len(test) > 60


def test_the_seed_decides():
    assert problems(3, 50, 30) == problems(3, 50, 30)
    assert problems(3, 50, 30) != problems(4, 50, 30)


def test_the_command_writes_both_sides_and_refuses_a_product(run, out, fails):
    args = ("word_problems", "--train_rows", 50, "--test_rows", 10, "--max_value", 20, "--train_batch_size", 8)
    assert run(*args) == 0
    rows = rows_of(out / "train.parquet")
    assert len(rows) == 50
    assert all(row["data_source"] == "word_problems" for row in rows)
    assert all(row["extra_info"]["solution"].endswith(f" = {row['reward_model']['ground_truth']}") for row in rows)
    assert "word problems know + and -" in fails(*args, "--operators", "+*")


def test_too_many_rows_say_how_many_there_are():
    with pytest.raises(ValueError, match=r"is more than the \d+ distinct"):
        problems(0, 200, 9)
