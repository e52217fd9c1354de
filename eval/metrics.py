"""Statistics over problems with k samples each. Pure; standard library only.

`avg@k` is the mean accuracy of a sample, `pass@k` the probability that at least one of k samples is right, `maj@k`
(cons@k) the accuracy of the majority vote. Intervals resample *problems*: samples of one problem are not independent.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence


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


def bootstrap_interval(
    per_problem: Sequence[float],
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
    statistic: Callable[[Sequence[float]], float] | None = None,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic (default: the mean) of one value a problem, resampling problems.

    Returns:
        `(low, high)`; deterministic for a given seed.
    """
    if not per_problem:
        raise ValueError("an interval needs at least one problem")
    rng = random.Random(seed)
    of = statistic or (lambda values: math.fsum(values) / len(values))
    values = sorted(of(rng.choices(per_problem, k=len(per_problem))) for _ in range(draws))
    tail = (1.0 - level) / 2.0
    return values[int(tail * (draws - 1))], values[math.ceil((1.0 - tail) * (draws - 1))]


def _check(correct: Sequence[Sequence[float]]) -> None:
    if not correct or any(len(samples) == 0 for samples in correct):
        raise ValueError("every problem needs at least one sample, and there must be a problem")
