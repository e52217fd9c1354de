"""Hostile text: always an answer, from any thread, without signals, well under a second where nothing is symbolic."""

import signal
import threading
import time

import pytest

from reward.grade import grade
from tests.benchmarks.reward import hostile

TEXTS = hostile(1_000_000)


@pytest.mark.parametrize("name", TEXTS)
def test_a_megabyte_is_answered(name):
    begin = time.thread_time()
    verdict = grade(TEXTS[name], "34")
    assert not verdict.error
    assert not verdict.correct
    assert time.thread_time() - begin < 5  # 0.5 s at most on an idle core; a quadratic rule takes minutes


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("{" * 50_000, "34"),
        ("2^{2^{2^{49}}}", "1"),
        ("9" * 900 + "^" + "9" * 90, "1/2"),
        ("((((" * 200, "x"),
        ("\\sqrt{" * 100 + "2" + "}" * 100, "\\sqrt{2}"),
        ("10000000!", "7"),
        ("1" + "0" * 990, "1/3"),
        ("\\frac{" * 150, "\\frac12"),
        ("x" + "^x" * 300, "x"),
        (", ".join(["1"] * 300), "1,2,3"),
    ],
)
def test_bombs_are_defused_without_a_worker(answer, gold):
    begin = time.thread_time()
    verdict = grade(f"Answer: {answer}", gold)
    assert not verdict.error
    assert not verdict.correct
    assert time.thread_time() - begin < 2


def test_the_answer_behind_hostile_text_is_found():
    for text in ("\x00" * 1000, "\ud800" * 1000, "{" * 50_000, "Answer: 5\n" * 100_000):
        assert grade(text + "\nAnswer: 34", "34").correct


def test_other_threads_and_no_signal_handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGUSR1)}
    results: list[bool] = []

    def work():
        results.append(grade("Answer: $\\frac{\\sqrt{2}}{2}$", "1/\\sqrt{2}").correct)
        results.append(grade("Answer: 34", "34").correct)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 6
    assert before == {number: signal.getsignal(number) for number in before}
