"""Arithmetic that is made up on the spot: problems such as `12+34=?`, in as many as a small model needs.

Which side a problem is on, `train` or `test`, depends on its operator and its operands in any order and on nothing
else: no seed, no count. So problems drawn with other seeds (a warm start, say) never meet the held-out ones, and
`12+34=?` and `34+12=?` stay together.
"""

import hashlib
import random
from collections.abc import Iterator

from data_prep.options import Options
from data_prep.sources.base import Parsed, Source, generated

SPLITS = ("train", "test")
TEST_SHARE = 0.1
_ENUMERABLE = 1_000_000  # problem spaces up to this size are listed and shuffled, larger ones are drawn from
_APPLY = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def build(options: Options) -> Source:
    """Return the source; its row counts, operands and operators are those of the options."""
    return generated(
        "arithmetic", options, lambda *args, **choice: (Parsed(*pair) for pair in problems(*args, **choice))
    )


def problems(
    seed: int, count: int, max_value: int = 99, *, min_value: int = 0, operators: str = "+", split: str = "train"
) -> list[tuple[str, str]]:
    """Return `count` distinct pairs `(problem, answer)` such as `("12+34=?", "46")`, the same for the same arguments.

    Operands run from `min_value` to `max_value`, both included; `operators` is any of `+`, `-` and `*`, as one string.
    About a tenth of all problems is on the side `test`.

    Raises:
        ValueError: as `operations`.
    """
    found = operations(seed, count, max_value, min_value=min_value, operators=operators, split=split)
    return [(f"{a}{op}{b}=?", result(a, op, b)) for a, op, b in found]


def operations(
    seed: int, count: int, max_value: int = 99, *, min_value: int = 0, operators: str = "+", split: str = "train"
) -> list[tuple[int, str, int]]:
    """Return what `problems` spells, as (operand, operator, operand); same arguments.

    Raises:
        ValueError: an argument is out of range, or the side has fewer than `count` problems.
    """
    _check(count, min_value, max_value, operators, split)
    space = len(operators) * (max_value - min_value + 1) ** 2
    draw = _shuffled if space <= _ENUMERABLE else _sampled
    found = draw(random.Random(seed), count, min_value, max_value, operators, split)
    if len(found) < count:
        raise ValueError(
            f"{split}_rows={count} is more than the {len(found)} distinct {split} problems with operands from "
            f"{min_value} to {max_value} and operators {operators!r}; raise max_value or ask for fewer rows"
        )
    return found


def result(a: int, operator: str, b: int) -> str:
    """Return the answer to `a operator b`."""
    return str(_APPLY[operator](a, b))


def side(a: int, operator: str, b: int) -> str:
    """Return the split that `a operator b` belongs to; swapping the operands does not change it."""
    low, high = sorted((a, b))
    digest = hashlib.blake2b(f"{operator} {low} {high}".encode(), digest_size=8).digest()
    return "test" if int.from_bytes(digest, "big") < TEST_SHARE * 2**64 else "train"


def _check(count: int, min_value: int, max_value: int, operators: str, split: str) -> None:
    if count < 0:
        raise ValueError(f"count={count} is negative; ask for 0 or more problems")
    if not 0 <= min_value <= max_value:
        raise ValueError(f"min_value={min_value} and max_value={max_value} must satisfy 0 <= min_value <= max_value")
    if not operators or set(operators) - set(_APPLY) or len(set(operators)) < len(operators):
        raise ValueError(f"operators={operators!r} must be distinct characters out of {''.join(_APPLY)}")
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is unknown; use one of {', '.join(SPLITS)}")


def _shuffled(
    rng: random.Random, count: int, low: int, high: int, operators: str, split: str
) -> list[tuple[int, str, int]]:
    span = range(low, high + 1)
    found = [(a, op, b) for op in operators for a in span for b in span if side(a, op, b) == split]
    rng.shuffle(found)
    return found[:count]


def _sampled(
    rng: random.Random, count: int, low: int, high: int, operators: str, split: str
) -> list[tuple[int, str, int]]:
    found: dict[tuple[int, str, int], None] = {}
    for problem in _draws(rng, 100 * count, low, high, operators):
        if len(found) == count:
            break
        if side(*problem) == split:
            found[problem] = None
    return list(found)


def _draws(rng: random.Random, count: int, low: int, high: int, operators: str) -> Iterator[tuple[int, str, int]]:
    for _ in range(count):
        yield rng.randint(low, high), rng.choice(operators), rng.randint(low, high)
