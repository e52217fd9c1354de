"""Comparing problems, telling scripts apart, templates there and back, canonical golds."""

import pytest

from data_prep.answers import canonical, kind_of
from data_prep.errors import DataError
from data_prep.templates import TEMPLATES, recover, render
from data_prep.text import digest, gives_away, is_english, normalise
from tests.data_prep.conftest import PREFIX, SUFFIX


def test_white_space_invisible_characters_and_composition_do_not_matter():
    assert normalise(" Find\u00a0 x.\n\tNow\u200b ") == "Find x. Now"
    assert digest("cafe\u0301") == digest("caf\u00e9")


@pytest.mark.parametrize(("one", "other"), [("x²", "x2"), ("12+34", "12*34"), ("Point A", "Point a"), ("a b", "ab")])
def test_what_may_be_another_problem_stays_apart(one, other):
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Find $x$.", True),
        ("Let \u03b1, β be angles in café \u211d.", True),
        ("$x^2 = 4$", True),
        ("求 $x$ 的值, where $\\frac{abcdefghijk}{lmnop}$", False),
        ("Найдите число", False),
        ("Tokyo (東京) is a city; how many letters does its name have?", True),
    ],
)
def test_language_is_told_by_script_outside_formulas(text, english):
    assert is_english(text) is english


@pytest.mark.parametrize(
    ("problem", "answer", "expected"),
    [
        ("Find m+n. The answer is 385.", "385", True),
        ("... Answer: $33$", "33", True),
        ("We get \\boxed{33}.", "33", True),
        ("答案是33", "33", True),
        ("The answer is 3855.", "385", False),
        ("The answer is 38.5", "38", False),
        ("A train of 385 metres", "385", False),
        ("Give the answer as a number.", "a", False),
    ],
)
def test_an_answer_sentence_is_seen_and_a_mere_number_is_not(problem, answer, expected):
    assert gives_away(problem, answer) is expected


def test_the_answer_template_is_the_published_wrap():
    assert render("What?", "answer") == PREFIX + "What?" + SUFFIX


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("problem", ["What is 1+1?", "Two\n\nparagraphs.", "Ends in Answer:", "$Answer"])
def test_recover_undoes_render(template, problem):
    assert recover(render(problem, template)) == (problem, template)


def test_recover_looks_past_other_white_space_at_the_seams():
    assert recover(PREFIX.strip() + "\n What? " + SUFFIX + "\n") == ("What?", "answer")
    assert recover("Solve the following math problem step by step. What?")[1] == "none"


def test_an_unknown_template_names_itself():
    with pytest.raises(ValueError, match=r"template='box'"):
        render("x", "box")


@pytest.mark.parametrize(
    ("value", "gold"),
    [
        ("033", "33"),
        (33, "33"),
        (33.0, "33"),
        ("34.0", "34"),
        ("1,000", "1000"),
        ("1,234,567.50", "1234567.5"),
        ("$33$", "33"),
        (" -7 ", "-7"),
        ("\u22127", "-7"),
        ("+5", "5"),
        ("-0", "0"),
        (".5", "0.5"),
        ("1e3", "1e3"),
        ("12,34", "12,34"),
        ("\\frac{1}{2}", "\\frac{1}{2}"),
        ("A", "A"),
        ("1" * 40, "1" * 40),
        ("0.12345678901234567890123456789012345", "0.12345678901234567890123456789012345"),
    ],
)
def test_canonical_gold(value, gold):
    assert canonical(value) == gold
    assert canonical(gold) == gold


@pytest.mark.parametrize(
    "value", [None, "", "  ", "[INVALID]", "None", "N/A", "?", "nan", True, ["34"], {"a": 1}, b"3"]
)
def test_what_is_no_gold_is_refused(value):
    with pytest.raises(DataError, match="column 'gold'"):
        canonical(value, "any", "gold")


@pytest.mark.parametrize(
    ("value", "kind"), [("1.5", "integer"), ("\\pi", "number"), ("3,4", "integer"), ("\uff13", "integer")]
)
def test_a_gold_of_another_kind_is_refused(value, kind):
    with pytest.raises(DataError, match=f"kind {kind}"):
        canonical(value, kind)


def test_kinds():
    assert [kind_of(a) for a in ("-3", "2.5", "\\frac12")] == ["integer", "decimal", "text"]
