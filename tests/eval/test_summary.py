"""Figures of a file against the same figures computed here, plainly."""

import itertools
import random
import statistics

import pytest

from eval.summary import Incomplete, summarise, table, vote


def sample(problem, number, correct, pred="7", tokens=10, finish_reason="stop"):
    fields = {"problem": problem, "sample": number, "correct": correct, "gold": "34"}
    return fields | {"pred": pred, "completion_tokens": tokens, "finish_reason": finish_reason}


def grid(rows):
    return [sample(p, s, bool(c), pred="34" if c else "7") for p, row in enumerate(rows) for s, c in enumerate(row)]


def test_figures_of_two_problems_with_four_samples():
    rows = [[1, 0, 0, 0], [1, 1, 0, 1]]
    found = summarise(grid(rows), 2, 4)
    assert found["mean"] == found["avg@4"] == 0.5
    assert found["pass@1"] == 0.5
    pairs = [statistics.mean(any(pair) for pair in itertools.combinations(row, 2)) for row in rows]
    assert found["pass@2"] == pytest.approx(statistics.mean(pairs))
    assert found["pass@4"] == 1.0
    assert found["maj@4"] == 0.5
    assert found["standard_error"] == pytest.approx(statistics.stdev([0.25, 0.75]) / 2**0.5)
    assert found["low"] <= 0.5 <= found["high"]
    assert [key for key in found if key.startswith("pass@")] == ["pass@1", "pass@2", "pass@4"]


def test_order_of_lines_is_irrelevant():
    lines = grid([[1, 0, 1], [0, 0, 1], [1, 1, 1]])
    shuffled = random.Random(0).sample(lines, len(lines))
    assert summarise(shuffled, 3, 3) == summarise(lines, 3, 3)


def test_fewer_samples_than_asked_is_an_error_and_never_a_wrong_answer():
    """8 samples a problem and k = 32: a sum over 8 divided by 32 is what others print."""
    lines = grid([[1] * 8] * 3)
    with pytest.raises(Incomplete, match="72 of 96 samples are missing, so there is no avg@32"):
        summarise(lines, 3, 32)
    found = summarise(lines, 3, 32, allow_missing=True)
    assert found["mean"] == found["avg@8"] == found["pass@8"] == found["low"] == found["high"] == 1.0
    assert (found["missing"], found["missing_share"], found["samples"]) == (72, 0.75, 8)
    assert "avg@32" not in found


def test_problem_without_any_sample_is_left_out_and_counted():
    found = summarise(grid([[1, 1], [0, 0]]), 3, 2, allow_missing=True)
    assert (found["mean"], found["problems"], found["problems_without_samples"]) == (0.5, 2, 1)
    assert "1 problems have no sample" in table(found)
    with pytest.raises(Incomplete):
        summarise([], 3, 2, allow_missing=True)


def test_shares_and_lengths():
    lines = [
        sample(0, 0, True, "34", tokens=10),
        sample(0, 1, False, None, tokens=100, finish_reason="length"),
        sample(0, 2, False, "7", tokens=30),
        sample(0, 3, False, "7", tokens=None),
    ]
    found = summarise(lines, 1, 4)
    assert (found["truncated_share"], found["unparsed_share"]) == (0.25, 0.25)
    assert (found["mean_tokens_right"], found["mean_tokens_wrong"]) == (10, 65)
    assert found["standard_error"] is None


def test_samples_beyond_n_do_not_count():
    assert summarise(grid([[1, 0], [1, 0]]), 2, 1)["mean"] == 1.0


def test_right_answers_vote_together_however_they_are_spelled():
    preds = [("34 apple", True), ("34", True), ("7", False), ("7.0", False), ("14/2", False), ("x+1", False)]
    votes = [vote(sample(0, i, correct, pred)) for i, (pred, correct) in enumerate(preds)]
    assert votes[0] == votes[1]
    assert votes[2] == votes[3] == votes[4] != votes[5]
    assert vote(sample(0, 0, False, None)) is None


def test_table_names_the_real_k():
    printed = table(summarise(grid([[1, 0, 1]]), 1, 3))
    assert "avg@3 " in printed
    assert "@32" not in printed
