"""Properties: never raises, dress does not matter, text in front does not matter, different numbers are different."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reward.grade import grade

NUMBERS = st.integers(-(10**6), 10**6)
NOISE = st.text(max_size=200) | st.text(alphabet="\\{}[]()$^_&%#~<>|*`.,:=+-/!0123456789abxABnswer \n", max_size=200)
WRAPPERS = (
    "Answer: {}",
    "Answer: ${}$",
    "Answer: $${}$$",
    "Answer: \\({}\\)",
    "Answer: \\[{}\\]",
    "**Answer:** {}",
    "**Answer**: {}",
    "Answer: **{}**",
    "Answer: `{}`",
    "Answer: {}.",
    "answer: {}",
    "Final Answer: {}",
    "Answer\uff1a{}",
    "Answer:\n{}",
    "Answer: \\boxed{{{}}}",
    "\\boxed{{{}}}",
    "$\\boxed{{{}}}$.",
    "\\boxed{{\\text{{{}}}}}",
    "Answer: {}<|im_end|>",
    "Answer: {}</s>",
    "Answer: x = {}",
    "Answer: The answer is {}.",
    "Answer: ({})",
    "Answer: {}\n\nI hope this helps.",
    "# Answer: {}",
    "> Answer: {}",
    "- Answer: {}",
    "Answer: \\text{{{}}}",
    "Answer: $\\mathbf{{{}}}$",
    "\\textbf{{Answer:}} {}",
)


@given(NOISE, NOISE)
@settings(max_examples=300, deadline=None)
def test_never_raises_on_any_response(text, gold):
    for response in (text, f"Answer: {text}", f"\\boxed{{{text}}}"):
        verdict = grade(response, "34")
        assert not verdict.error, verdict.reason
        assert verdict.pred is None or isinstance(verdict.pred, str)


@given(NOISE)
@settings(max_examples=150, deadline=None)
def test_never_raises_on_any_gold(gold):
    verdict = grade("Answer: 34", gold)
    assert not verdict.error, verdict.reason


@given(st.none() | st.integers() | st.floats() | st.binary(max_size=5) | st.lists(st.integers(), max_size=2))
def test_a_gold_that_is_no_text_is_bad(gold):
    assert grade("Answer: 34", gold).parse_status == "bad_gold"


@pytest.mark.parametrize("wrapper", WRAPPERS)
@given(right=NUMBERS, other=NUMBERS)
@settings(max_examples=15, deadline=None)
def test_dress_keeps_the_verdict(wrapper, right, other):
    response = wrapper.format(right)
    assert grade(response, str(right)).correct
    assert grade(response, str(other)).correct == (right == other)


@pytest.mark.parametrize("wrapper", ["Answer: {}", "so $\\boxed{{{}}}$"])
@given(text=NOISE, right=NUMBERS, other=NUMBERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_text_in_front_never_flips(wrapper, text, right, other):
    assume("<think" not in text and "boxed" not in text)
    assume("nswer" not in text.lower() or wrapper.startswith("Answer"))
    response = f"{text}\n{wrapper.format(right)}"
    assert grade(response, str(right)).correct
    assert grade(response, str(other)).correct == (right == other)


@given(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4), st.sampled_from([" or ", ", ", " and ", " / ", "; ", " "]))
@settings(deadline=None)
def test_a_listing_never_scores(right, others, joiner):
    assume(right not in others and joiner != " / ")
    assume(joiner not in (" ", ", ") or all(not 100 <= abs(n) <= 999 for n in [*others, right]))
    for listing in ([right, *others], [*others, right]):
        text = joiner.join(map(str, listing))
        assert not grade(f"Answer: {text}", str(right)).correct, text


@given(NUMBERS, st.sampled_from("abcxyzk%+*/^_=<>"), NUMBERS)
@settings(deadline=None)
def test_glued_numbers_never_score(left, glue, right):
    whole = f"{left}{right}"
    assume(whole.lstrip("-").isdigit())
    assert not grade(f"Answer: {left}{glue}{abs(right)}", whole).correct


@given(st.integers(1, 10**9))
def test_spellings_of_one_number(number):
    for text in (
        f"{number:,}",
        f"{number}.0",
        f"00{number}",
        f"{number:,}".replace(",", "{,}"),
        f"+{number}",
        f"{number} cm",
    ):
        assert grade(f"Answer: {text}", str(number)).correct, text


@given(st.fractions(max_denominator=500))
@settings(deadline=None, max_examples=60)
def test_fractions(value):
    assume(value.denominator > 1)
    latex = f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    assert grade(f"Answer: ${latex}$", str(value)).correct
    assert not grade(f"Answer: {value + 1}", latex).correct
