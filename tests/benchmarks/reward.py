"""Cost of grading: ours, verl's math_dapo and math-verify on the same texts. ``python -m tests.benchmarks.reward``.

Prints tables, then one JSON line. Times are CPU time of the calling thread, medians per call, so a busy machine counts
for little. Responses differ from call to call; our caches of golds and answers are warm in later rounds, as in training
where a gold comes back for every sample of its group. A 20,000-token response is about 70,000 characters.
"""

import json
import random
import statistics
import time
from collections.abc import Callable

from reward.compat import verl_compat
from reward.grade import grade

LONG_CHARACTERS = 70_000
_STEPS = (
    "We substitute $x = {a}$ and obtain ${a}^2 - {b} = {c}$, which is not zero.\n",
    "Hmm, wait. That would give {c}, but the parity argument rules it out, so continue with {b}.\n",
    "Case {a}: take $n < {b}$, so the count is $\\binom{{{b}}}{{2}} = {c}$.\n\n",
    "If $|x| \\le {a}$ then the answer would be below {c}, a contradiction.\n",
)


def thought(characters: int, seed: int) -> str:
    """Derivation of about ``characters`` characters without a final answer; every seed gives another one."""
    rng = random.Random(seed)
    parts, size = [], 0
    while size < characters:
        step = rng.choice(_STEPS).format(a=rng.randrange(99), b=rng.randrange(999), c=rng.randrange(9999))
        parts.append(step)
        size += len(step)
    return "".join(parts)


def medians_us(cases: list[tuple[str, str]]) -> dict[str, float]:
    """Median microseconds a call of every scorer over three rounds, each scorer's pass in turn.

    math-verify, hundreds of times slower, sees every eighth case, once.
    """
    times: dict[str, list[float]] = {name: [] for name in scorers()}
    for round_ in range(3):
        for name, call in scorers().items():
            slow = name == "math_verify"
            if slow and round_ < 2:
                continue
            for response, gold in cases[:: 8 if slow else 1]:
                begin = time.thread_time()
                call(response, gold)
                times[name].append(time.thread_time() - begin)
    return {name: round(1e6 * statistics.median(seconds), 1) for name, seconds in times.items()}


def math_verify_call(response: str, gold: str) -> bool:
    """math-verify as its documentation shows it; time limits off, they use signals."""
    from math_verify import parse, verify

    return verify(parse(f"${gold}$", parsing_timeout=None), parse(response, parsing_timeout=None), timeout_seconds=None)


def scorers() -> dict[str, Callable[[str, str], object]]:
    """Scorers by name."""
    return {"strict": grade, "math_dapo": verl_compat, "math_verify": math_verify_call}


def sets() -> dict[str, list[tuple[str, str]]]:
    """Texts by name: long and short responses with a whole-number gold, and short ones with a fraction."""
    golds = [str(100 + 7 * number) for number in range(120)]
    return {
        "20k_tokens_integer": [(thought(LONG_CHARACTERS, n) + f"Answer: {g}", g) for n, g in enumerate(golds)],
        "20k_tokens_dollars": [(thought(LONG_CHARACTERS, n) + f"Answer: ${g}$\n", g) for n, g in enumerate(golds)],
        "20k_tokens_thinking": [
            (f"<think>\n{thought(LONG_CHARACTERS, n)}</think>\n\nSo.\n\nAnswer: {g}", g) for n, g in enumerate(golds)
        ],
        "20k_tokens_boxed": [(thought(LONG_CHARACTERS, n) + f"so $\\boxed{{{g}}}$.", g) for n, g in enumerate(golds)],
        "20k_tokens_no_answer": [(thought(LONG_CHARACTERS, n), g) for n, g in enumerate(golds)],
        "short_integer": [(thought(300, n) + f"Answer: {g}", g) for n, g in enumerate(golds)],
        "short_fraction": [
            (thought(300, n) + f"Answer: $\\frac{{{g}}}{{1001}}$", f"{g}/1001") for n, g in enumerate(golds)
        ],
    }


def hostile(size: int) -> dict[str, str]:
    """Hostile responses of about ``size`` characters."""
    return {
        "prose": "a b " * (size // 4),
        "open_braces": "Answer: " + "{" * size,
        "open_boxes": "\\boxed{" * (size // 7),
        "answer_lines": "Answer: 3\n" * (size // 10),
        "answers_on_one_line": "Answer: 3 " * (size // 10),
        "empty_answers": "Answer:\n" * (size // 8),
        "answer_spaces": "answer" + " " * size + ":",
        "nested_fractions": "Answer: " + "\\frac{1}{" * (size // 9) + "}" * (size // 9),
        "digits": "Answer: " + "7" * size,
        "think_tags": "<think>" * (size // 7) + "Answer: 3",
        "closed_think_tags": "think>" * (size // 6) + "Answer: 3",
        "turns": "Answer: 3\nHuman: x\n" * (size // 19),
        "nul_bytes": "\x00" * size + "Answer: 3",
        "lone_surrogates": "\ud800" * size + "Answer: 3",
        "dollars": "Answer: " + "$" * size,
        "unicode": "\u7b54\u6848" * (size // 2),
    }


def growth(sizes: tuple[int, ...] = (62_500, 250_000, 1_000_000)) -> dict[str, list[float]]:
    """Milliseconds per hostile text at each size; linear time means that they grow as the sizes do."""
    table: dict[str, list[float]] = {}
    for size in sizes:
        for name, text in hostile(size).items():
            best = min(_seconds(text) for _ in range(3))
            table.setdefault(name, []).append(round(1e3 * best, 2))
    return table


def _seconds(text: str) -> float:
    begin = time.thread_time()
    grade(text, "34")
    return time.thread_time() - begin


def main() -> None:
    """Measure and print."""
    times = {name: medians_us(cases) for name, cases in sets().items()}
    print(f"{'median microseconds':26}" + "".join(f"{name:>14}" for name in scorers()))
    for name, row in times.items():
        print(f"{name:26}" + "".join(f"{value:14.1f}" for value in row.values()))
    table = growth()
    print(f"\n{'milliseconds at':26}" + "".join(f"{size:>14}" for size in ("62,500", "250,000", "1,000,000 chars")))
    for name, values in table.items():
        print(f"{name:26}" + "".join(f"{value:14.2f}" for value in values))
    long = times["20k_tokens_integer"]
    print(
        json.dumps(
            {
                "strict_over_math_dapo": round(long["strict"] / long["math_dapo"], 2),
                "math_verify_over_strict": round(long["math_verify"] / long["strict"], 1),
                "us": times,
                "worst_ms_at_1e6_characters": max(row[-1] for row in table.values()),
                "worst_growth_for_4x": round(max(row[-1] / max(row[-2], 0.05) for row in table.values()), 1),
            }
        )
    )


if __name__ == "__main__":
    main()
