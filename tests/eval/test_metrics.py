import itertools
import math
import random

import pytest

from eval.metrics import avg_at_k, bootstrap_interval, maj_at_k, pass_at_k, standard_error


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


@pytest.mark.parametrize(("a", "b", "problems", "k"), [(0.4, 0.4, 30, 32), (2, 3, 30, 4)])
def test_interval_covers_the_truth_about_as_often_as_it_says(a, b, problems, k):
    """Problems drawn with difficulty Beta(a, b), k samples each, as avg@k sees them; the truth is a / (a + b)."""
    rng = random.Random(3)
    covered, trials = 0, 200
    for trial in range(trials):
        chances = [rng.betavariate(a, b) for _ in range(problems)]
        means = [sum(rng.random() < p for _ in range(k)) / k for p in chances]
        low, high = bootstrap_interval(means, draws=400, seed=trial)
        covered += low <= a / (a + b) <= high
    assert 0.91 <= covered / trials <= 0.99  # 0.95 give or take 2.5 standard errors of 200 trials


def test_interval_of_few_problems_is_as_wide_as_student_t_asks():
    """Percentiles alone cover 0.93 for 30 problems: they miss sqrt(29 / 30) and take 1.96 for 2.045."""
    rng = random.Random(4)
    values = [rng.gauss(0.5, 0.1) for _ in range(30)]
    low, high = bootstrap_interval(values, draws=20_000)
    assert (high - low) / 2 == pytest.approx(2.0452 * standard_error(values), rel=0.01)


def test_standard_error():
    assert standard_error([0.0, 1.0, 1.0, 0.0]) == pytest.approx((1 / 3) ** 0.5 / 2)
    assert standard_error([0.5]) is None


def test_bootstrap_interval_of_equal_values_is_a_point():
    assert bootstrap_interval([0.5] * 10) == (0.5, 0.5)
    assert not math.isnan(bootstrap_interval([0.1, 0.9])[0])
    assert bootstrap_interval([0.3]) == (0.3, 0.3)
    with pytest.raises(ValueError, match="at least one problem"):
        bootstrap_interval([])
