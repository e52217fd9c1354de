"""The historic modes: verl's own function bit for bit, and an independent reading of the tutorial's scorer."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward.compat import load_math_dapo, tutorial, verl_compat
from reward.grade import grade


def other_tutorial(response: str, gold: str) -> bool:
    """The tutorial's rules, written a second time."""
    low = response.lower()
    if "answer:" not in low:
        return False
    line = re.split("answer:", response, flags=re.IGNORECASE)[-1].partition("\n")[0]

    def reduce(text):
        text = text[text.rfind("=") + 1 :]
        return re.sub(r"\\\$|\$|,| |\\text\{|\\boxed\{|\}", "", text).strip()

    if re.fullmatch(r"\s*[-+]?\d+\s*", gold):
        gold = str(int(gold))
    elif re.fullmatch(r"\s*[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?\s*", gold):
        gold = str(int(float(gold)))
    return reduce(line) == reduce(gold)


def test_verl_compat_agrees_with_math_dapo_on_every_public_case(public_cases):
    upstream = load_math_dapo()
    for case in public_cases:
        expected = upstream.compute_score(case["response"], case["gold"])
        assert grade(case["response"], case["gold"], mode="verl_compat").correct == expected["acc"]
        assert verl_compat(case["response"], case["gold"]) == expected


def test_math_dapo_comes_from_the_installed_verl_without_torch():
    import subprocess
    import sys

    code = "import sys; from reward.compat import verl_compat as v; v('Answer: 3', '3'); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
    assert "verl/utils/reward_score/math_dapo.py" in load_math_dapo().__file__.replace("\\", "/")


def test_tutorial_agrees_with_a_second_reading_on_every_public_case(public_cases):
    for case in public_cases:
        got = grade(case["response"], case["gold"], mode="tutorial").correct
        assert got == other_tutorial(case["response"], case["gold"]), case["id"]


@pytest.mark.parametrize(
    ("response", "gold", "right"),
    [
        ("Answer: \\$1,234", "1234", True),
        ("answer: n = \\boxed{34}", "34.0", True),
        ("Answer: \\text{3 4}", "34", True),
        ("Answer: 5\nAnswer: 34 ", "34", True),
        ("Answer: 34.", "34", False),
        ("\\boxed{34}", "34", False),
    ],
)
def test_tutorial_examples(response, gold, right):
    assert tutorial(response, gold)[0] is right


@given(st.text(alphabet="Answer: $\\{}=34,.xtboed\n", max_size=60), st.sampled_from(["34", "34.0", "x", "3,4", "-4"]))
def test_tutorial_agrees_with_a_second_reading_on_noise(text, gold):
    assert tutorial("answer: " + text, gold)[0] == other_tutorial("answer: " + text, gold)


@pytest.mark.parametrize("mode", ["strict", "verl_compat", "tutorial"])
def test_mode_is_recorded(mode):
    assert grade("Answer: 34", "34", mode=mode).mode == mode
    assert grade("Answer: 34", 34, mode=mode).parse_status == "bad_gold"
    assert grade("Answer: 34", None, mode=mode).mode == mode


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="mode='loose'"):
        grade("Answer: 34", "34", mode="loose")
    with pytest.raises(ValueError, match="answer_format='xml'"):
        grade("Answer: 34", "34", answer_format="xml")
