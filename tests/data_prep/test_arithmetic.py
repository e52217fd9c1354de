"""Made-up arithmetic: right, distinct, seeded, and the two sides never meet."""

import ast
import operator

import pytest

from data_prep.sources.arithmetic import problems
from tests.data_prep.conftest import card_of, rows_of

APPLY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def parsed(text: str) -> tuple[str, int, int]:
    node = ast.parse(text.removesuffix("=?"), mode="eval").body
    return type(node.op).__name__, node.left.value, node.right.value


@pytest.mark.parametrize("max_value", [9, 99, 10**6])
@pytest.mark.parametrize("operators", ["+", "+-*"])
def test_answers_are_right_and_problems_distinct(max_value, operators):
    made = problems(1, 60, max_value, operators=operators)
    for text, answer in made:
        node = ast.parse(text.removesuffix("=?"), mode="eval").body
        assert answer == str(APPLY[type(node.op)](node.left.value, node.right.value))
        assert max(node.left.value, node.right.value) <= max_value
    assert len({text for text, _ in made}) == 60
    assert {parsed(text)[0] for text, _ in made} == {"+": {"Add"}, "+-*": {"Add", "Sub", "Mult"}}[operators]


def test_the_sides_share_no_pair_in_either_order_whatever_the_seeds():
    def pairs(seed, count, split):
        return {tuple(sorted(parsed(text)[1:])) for text, _ in problems(seed, count, split=split)}

    train = pairs(0, 5000, "train") | pairs(1, 5000, "train")
    test = pairs(2, 700, "test")
    assert not train & test
    assert len(test) > 300


def test_the_seed_decides():
    assert problems(3, 50) == problems(3, 50)
    assert problems(3, 50) != problems(4, 50)


def test_too_many_rows_say_how_many_there_are():
    with pytest.raises(ValueError, match=r"train_rows=200 is more than the \d\d distinct"):
        problems(0, 200, 9)


@pytest.mark.parametrize(
    "arguments", [{"operators": "/"}, {"operators": "++"}, {"max_value": -1}, {"min_value": 5, "max_value": 4}]
)
def test_arguments_out_of_range_are_named(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        problems(0, 1, **arguments)


def test_the_command_writes_both_sides(run, out):
    args = ("arithmetic", "--template", "none", "--train_rows", 50, "--test_rows", 10, "--train_batch_size", 8)
    assert run(*args) == 0
    train, test = rows_of(out / "train.parquet"), rows_of(out / "test.parquet")
    assert [len(train), len(test)] == [50, 10]
    assert train[0]["prompt"] == [{"content": train[0]["extra_info"]["raw_problem"], "role": "user"}]
    assert test[9]["extra_info"]["split"] == "test"
    assert card_of(out / "train.parquet")["rollout_steps"]["one_pass"] == 6
