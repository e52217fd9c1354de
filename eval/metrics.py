"""Statistics over problems with k samples each. Pure; standard library only.

`avg@k` is the mean accuracy of a sample, `pass@k` the probability that at least one of k samples is right, `maj@k`
(cons@k) the accuracy of the majority vote. Intervals resample *problems*: samples of one problem are not independent.
"""

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence


def avg_at_k(correct: Sequence[Sequence[float]]) -> float:
    """Mean over problems of the mean accuracy of their samples, in 0..1.

    Args:
        correct: one sequence of 0/1 verdicts for each problem.

    Raises:
        ValueError: there is no problem, or one without samples.
    """
    _check(correct)
    return math.fsum(math.fsum(samples) / len(samples) for samples in correct) / len(correct)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass@k from n samples of which c are right: 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374).

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def maj_at_k(predictions: Sequence[str | None], correct: Sequence[float]) -> float:
    """Accuracy, 0 or 1, of the most frequent answer of one problem.

    Samples without an answer do not vote; when several answers are equally frequent the one given first wins, so the
    result does not depend on chance. No vote at all is wrong.
    """
    if len(predictions) != len(correct):
        raise ValueError(f"{len(predictions)} predictions but {len(correct)} verdicts")
    votes = Counter(p for p in predictions if p)
    if not votes:
        return 0.0
    best = max(votes.values())
    winner = next(p for p in predictions if p and votes[p] == best)
    return float(correct[list(predictions).index(winner)])


def standard_error(per_problem: Sequence[float]) -> float | None:
    """Standard error of the mean over problems: sample standard deviation / sqrt(problems); None for one problem."""
    if len(per_problem) < 2:
        return None
    return statistics.stdev(per_problem) / math.sqrt(len(per_problem))


def bootstrap_interval(
    per_problem: Sequence[float], level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval of the mean of one value a problem, resampling problems.

    Expanded percentile interval (Hesterberg, arXiv 1411.5279, section 5.3): plain percentiles are too narrow for few
    problems, because a resample's spread is short by sqrt((P - 1) / P) and the normal quantile ignores that the spread
    is estimated. For 30 problems a 95 % interval takes the 1.9 and 98.1 % points.

    Returns:
        `(low, high)`; deterministic for a given seed. One problem gives a point: nothing is known of the spread.
    """
    if not per_problem:
        raise ValueError("an interval needs at least one problem")
    size = len(per_problem)
    if size == 1:
        return per_problem[0], per_problem[0]
    rng = random.Random(seed)
    means = sorted(math.fsum(rng.choices(per_problem, k=size)) / size for _ in range(draws))
    quantile = _student_quantile(0.5 + level / 2.0, size - 1)
    tail = statistics.NormalDist().cdf(-quantile * math.sqrt(size / (size - 1)))
    return means[int(tail * (draws - 1))], means[math.ceil((1.0 - tail) * (draws - 1))]


def _student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t, by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5)."""
    z = statistics.NormalDist().inv_cdf(probability)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def _check(correct: Sequence[Sequence[float]]) -> None:
    if not correct or any(len(samples) == 0 for samples in correct):
        raise ValueError("every problem needs at least one sample, and there must be a problem")
