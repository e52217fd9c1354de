"""Near misses that were once accepted: each guards one rule, with what must stay accepted beside it."""

import threading

import pytest

from reward.grade import grade

NEAR = [
    (r"5\phantom{3}7", "57"),  # what is unseen still takes room
    ("x!", "x"),  # a factorial, not excitement
    ("(x+1)!", "x+1"),
    ("f'(x)", "f(x)"),  # a derivative
    ("f''(x)", "f'(x)"),
    ("y'=2x", "y=2x"),
    ("x'", "x"),
    ("A'", "A"),
    ("x", r"\sqrt{x^2}"),  # equal for positive x only
    ("x", "|x|"),
    (r"\max(x,0)", "x"),
    ("ON", "NO"),  # words, not sets of choices
    ("END", "DNE"),
]
SAME = [
    ("57!", "57"),
    ("east!", "east"),
    ("'57'", "57"),
    ("'x'", "x"),
    ("f'(x)", "f'(x)"),
    ("y = 2x", "2x"),
    ("y' = 2x", "2x"),
    ("DCA", "ACD"),
    ("C, A", "A, C"),
    (r"\sqrt{x}\sqrt{y}", r"\sqrt{xy}"),
    ("x^2-1", "(x-1)(x+1)"),
    (r"\color{red}57", "57"),
]


@pytest.mark.parametrize(("answer", "gold"), NEAR)
def test_near_miss_is_rejected(answer, gold):
    assert not grade(f"Answer: {answer}", gold).correct


@pytest.mark.parametrize(("answer", "gold"), SAME)
def test_what_looks_like_it_stays_accepted(answer, gold):
    assert grade(f"Answer: {answer}", gold).correct


def test_deep_nesting_is_malformed_and_no_error():
    verdict = grade("Answer: " + "(" * 480 + "57" + ")" * 480, "57")
    assert (verdict.correct, verdict.reason, verdict.error) == (False, "malformed", False)


def test_queue_and_replacement_workers_are_part_of_the_limit():
    grade(r"Answer: \sqrt{x}\sqrt{x}", "x")  # the first start of a worker is not
    reasons = []

    def call(number):
        verdict = grade(f"Answer: 9^{{9^{{9^{{9}}}}}}+{number}x", f"{number}x", limit_s=0.5)
        reasons.append(verdict.reason)

    for _ in range(2):  # six calls on two workers; the second time these are replacements that may still be loading
        threads = [threading.Thread(target=call, args=(number,)) for number in range(3, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert reasons == ["symbolic_timeout"] * 12
    assert grade(r"Answer: \sqrt{y}\sqrt{y}", "y", limit_s=60).correct  # and the pool still answers
