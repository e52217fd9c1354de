import itertools
import math
import random

import pytest

from eval.metrics import avg_at_k, bootstrap_interval, maj_at_k, pass_at_k


def test_avg_at_k_weighs_problems_equally():
    assert avg_at_k([[1, 0, 0, 0], [1, 1]]) == pytest.approx((0.25 + 1.0) / 2)


def test_avg_at_k_refuses_a_problem_without_samples():
    with pytest.raises(ValueError, match="at least one sample"):
        avg_at_k([[1.0], []])


def test_pass_at_k_of_one_right_in_four():
    assert [pass_at_k(4, 1, k) for k in (1, 2, 4)] == pytest.approx([0.25, 0.5, 1.0])


@pytest.mark.parametrize(("n", "c", "k"), [(6, 2, 3), (5, 0, 2), (5, 5, 1), (7, 3, 5)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(n, c, k):
    samples = [1] * c + [0] * (n - c)
    subsets = list(itertools.combinations(samples, k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, 1, 5), (4, 1, 0)])
def test_pass_at_k_refuses_impossible_counts(n, c, k):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k(n, c, k)


def test_maj_at_k_breaks_ties_by_the_first_given_and_ignores_missing_answers():
    assert maj_at_k(["7", "8", "8", "7", None], [0, 1, 1, 0, 0]) == 0.0
    assert maj_at_k(["8", "7", "8", "7", None], [1, 0, 1, 0, 0]) == 1.0
    assert maj_at_k([None, "", None], [0, 0, 0]) == 0.0


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    rng = random.Random(3)
    covered = 0
    for trial in range(200):
        sample = [rng.betavariate(2, 3) for _ in range(40)]
        low, high = bootstrap_interval(sample, draws=400, seed=trial)
        covered += low <= 2 / 5 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_bootstrap_interval_of_equal_values_is_a_point():
    assert bootstrap_interval([0.5] * 10) == (0.5, 0.5)
    assert not math.isnan(bootstrap_interval([0.1, 0.9])[0])
