"""One-step word problems about small numbers, for a pre-trained model that is too small for `gsm8k`.

The sums are those of `arithmetic`, and so is the side each is on: no sum of a held-out problem is asked in a training
problem, in any words or order. A difference takes the smaller number from the larger one.
"""

import random

from data_prep.options import Options
from data_prep.sources.arithmetic import operations, result
from data_prep.sources.base import Parsed, Source, generated

NAMES = ("Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo")
THINGS = ("apples", "books", "cards", "coins", "marbles", "pencils", "shells", "stamps")
STORIES = {
    "+": (
        "{name} has {a} {things} and buys {b} more. How many {things} does {name} have now?",
        "{name} found {a} {things} in the morning and {b} in the afternoon. How many {things} is that in all?",
        "There are {a} {things} in one box and {b} {things} in another. How many {things} are there together?",
        "{name} had {a} {things}. Then a friend gave {name} {b} more. How many {things} does {name} have now?",
    ),
    "-": (
        "{name} had {a} {things} and gave {b} of them away. How many {things} does {name} have left?",
        "There were {a} {things} in a box. {name} took {b} of them out. How many {things} are still in the box?",
        "{name} has {a} {things}, of which {b} are old and the rest are new. How many new {things} does {name} have?",
        "{name} wants {a} {things} and has {b} so far. How many more {things} does {name} need?",
    ),
}


def build(options: Options) -> Source:
    """Return the source; its row counts, operands and operators (+ and -) are those of the options.

    Raises:
        ValueError: there is an operator that no story has words for.
    """
    if unknown := set(options.operators) - set(STORIES):
        raise ValueError(f"operators={options.operators!r}: word problems know + and -, not {''.join(sorted(unknown))}")
    return generated("word_problems", options, problems)


def problems(seed: int, count: int, max_value: int, **choice: int | str) -> list[Parsed]:
    """Return `count` distinct problems, each solved as `12 + 7 = 19`; same arguments as `operations`, same problems.

    Raises:
        ValueError: as `operations`.
    """
    rng = random.Random(seed)
    told: dict[str, Parsed] = {}
    for a, operator, b in operations(seed, count, max_value, **choice):  # type: ignore[arg-type]
        if operator == "-":
            a, b = max(a, b), min(a, b)
        while (text := _told(rng, a, operator, b)) in told:  # 12-5 and 5-12 are one story
            pass
        answer = result(a, operator, b)
        told[text] = Parsed(text, answer, solution=f"{a} {operator} {b} = {answer}")
    return list(told.values())


def _told(rng: random.Random, a: int, operator: str, b: int) -> str:
    words = {"name": rng.choice(NAMES), "things": rng.choice(THINGS)}
    return rng.choice(STORIES[operator]).format(a=a, b=b, **words)
