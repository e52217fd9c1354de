"""Verdicts of the default mode: hand-labelled cases in both formats, wrappers, thoughts, and the public case file."""

import pytest

from reward.grade import grade
from tests.reward.cases import ACCEPTED, REJECTED, pairs


def both_formats(answer: str) -> list[str]:
    boxed = [] if "boxed" in answer or "<" in answer or "**" in answer else [f"We get \\boxed{{{answer}}}."]
    return [f"Step 1: think 12 times.\nAnswer: {answer}", *boxed]


@pytest.mark.parametrize(("gold", "answer"), pairs(ACCEPTED))
def test_accepted(gold, answer):
    for response in both_formats(answer):
        assert grade(response, gold).correct, response


@pytest.mark.parametrize(("gold", "answer"), pairs(REJECTED))
def test_rejected(gold, answer):
    for response in both_formats(answer):
        assert not grade(response, gold).correct, response


@pytest.mark.parametrize(
    "response",
    [
        "Answer:\n34",
        "Answer:\n\n$$\n34\n$$",
        "Answer\uff1a34",
        "Answer: \uff13\uff14",
        "答案\uff1a34",
        "ANSWER: 34",
        r"\textbf{Answer:} 34",
        '{"answer": "34"}',
        "**Final Answer**\n\n\\[ \\boxed{34} \\]",
        "The answer is: 34",
        "| Answer: 34 |",
        "Answer: 34\n```",
        "\\boxed{\\boxed{34}}",
        "\\boxed {34}",
        "\\fbox{34}",
        "$\\boxed{34}$. Not 35.",
        "Answer: 35\nNo.\nAnswer: 34",
        "Answer: 34 Answer: 34",
        "Answer: 34. I hope it is correct.",
        "<think>Answer: 35</think>\nAnswer: 34",
        "lost thought </think>Answer: 34",
    ],
)
def test_places_where_34_is_read(response):
    assert grade(response, "34").pred == "34"


@pytest.mark.parametrize(
    "response",
    [
        "34",
        "The final answer is 34.",
        "<think>Answer: 34",
        "<think>Answer: 34</think>\nDone.",
        "Answer: 34\nAnswer: 35",
        "Answer: 34 Answer: 35",
        "It is \\boxed{34} or \\boxed{35}",
        "\\boxed{35} or \\boxed{34}",
        "Answer: [ANS]",
        "Answer: your answer here",
        "Answer: {}",
        "Answer: $\\frac{",
        "\\boxed{34",
        "Answer: \\boxed{}",
        "so we have 34 and then",
    ],
)
def test_places_where_34_is_not_the_answer(response):
    assert not grade(response, "34").correct


def test_a_prompt_that_opens_the_thought():
    assert not grade("maybe Answer: 34", "34", thought_open=True).correct
    assert grade("maybe</think>Answer: 34", "34", thought_open=True).correct


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("34", "equal"),
        ("35", "differs"),
        ("maybe 34", "hedged"),
        ("34, 35", "several_candidates"),
        ("$\\frac{", "malformed"),
    ],
)
def test_reasons(answer, reason):
    assert grade(f"Answer: {answer}", "34").reason == reason


def test_pred_is_one_spelling_for_equal_numbers():
    assert {grade(f"Answer: {text}", "1").pred for text in ("0.5", "1/2", r"$\frac{1}{2}$", r"\frac{2}{4}")} == {"1/2"}
    assert grade("nothing", "1").pred is None


def test_public_cases(public_cases):
    scored = [case for case in public_cases if case["kind"] != "ambiguous"]
    got = [grade(case["response"], case["gold"]) for case in scored]
    assert not any(verdict.error for verdict in got)
    wrong = [case["id"] for case, v in zip(scored, got, strict=True) if v.correct != case["expected"]]
    false_positives = [case["id"] for case, v in zip(scored, got, strict=True) if v.correct > case["expected"]]
    negatives = sum(not case["expected"] for case in scored)
    assert len(scored) == 901
    assert len(wrong) <= 0.03 * len(scored), wrong
    assert len(false_positives) <= 0.01 * negatives, false_positives


def test_public_cases_with_integer_gold_and_answer_line(public_cases):
    rows = [
        case
        for case in public_cases
        if case["kind"] != "ambiguous" and case["gold"].lstrip("-").isdigit() and "answer:" in case["response"].lower()
    ]
    right = [grade(case["response"], case["gold"]).correct == case["expected"] for case in rows]
    assert len(rows) > 100
    assert sum(right) >= 0.995 * len(rows)
    assert not any(grade(case["response"], case["gold"]).correct for case in rows if not case["expected"])


def test_aime_golds(aime_golds):
    assert len(aime_golds) > 25  # 30 problems, some share an answer
    for one in aime_golds:
        for other in aime_golds:
            assert grade(f"Answer: {one}", other).correct == (one == other)
