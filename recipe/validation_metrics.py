"""Which validation figures deserve verl's bootstrap, and plain means for the others. Pure.

verl 0.9.1 draws 1,000 bootstrap samples for every numeric key a reward returns, every prompt and every k: with a dozen
keys, 128 prompts and 4 samples that is 50 s of one core in which every GPU waits. Only accuracy is read that way.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

BOOTSTRAPPED = ("acc", "pred")  # accuracy, and the votes of its maj@k


def split(values: Mapping[str, list]) -> tuple[dict[str, list], dict[str, list]]:
    """Split reward keys into those for verl's bootstrap and those for `means`; without `acc` verl gets `reward`."""
    chosen = BOOTSTRAPPED if "acc" in values else ("reward", "pred")
    return {k: v for k, v in values.items() if k in chosen}, {k: v for k, v in values.items() if k not in chosen}


def complete(uids: Sequence[str], expected: Mapping[tuple[str, str], int] | None) -> bool:
    """Whether every expected sample (samples by (data source, uid)) is there; verl counts missing ones as wrong."""
    return expected is None or len(uids) == sum(expected.values())


def means(sources: Sequence[str], uids: Sequence[str], values: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """`val-aux/{source}/{key}/mean@{k}`: the mean over prompts of the mean over a prompt's k samples.

    Text and missing values are left out; `k` is the largest number of samples of one prompt.
    """
    found: dict[str, float] = {}
    for key, column in values.items():
        prompts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for source, uid, value in zip(sources, uids, column, strict=True):
            if isinstance(value, int | float):
                prompts[source][uid].append(float(value))
        for source, samples in prompts.items():
            k = max(map(len, samples.values()))
            found[f"val-aux/{source}/{key}/mean@{k}"] = math.fsum(map(_mean, samples.values())) / len(samples)
    return found


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
