"""Every small input about rewards of the list of known pains, by its number there."""

import pytest

from reward.extract import extract
from reward.gold import canonical_gold, check_gold
from reward.grade import grade
from reward.overlong import soft_overlong_punishment
from reward.settings import RewardSettings


@pytest.mark.parametrize(
    "response",
    [
        "**Answer:** 34",
        "**Answer**: 34",
        r"Answer: \(34\)",
        r"Answer: \[34\]",
        "Answer: $$34$$",
        "Answer: 34.",
        "Answer: 34.0",
        "Answer: `34`",
    ],
)
def test_08_markdown_and_latex_wrappers(response):
    assert grade(response, "34").correct
    assert not grade(response, "43").correct


def test_09_one_format_is_preferred_and_the_other_still_read():
    assert grade("Answer: 34", "34", answer_format="boxed").correct
    both = "\\boxed{33}\nAnswer: 34"
    assert grade(both, "34").parse_status == "answer_line"
    assert grade(both, "33", answer_format="boxed").parse_status == "boxed"
    assert grade(both, "33", answer_format="boxed").correct


def test_10_box_without_answer_line():
    verdict = grade(r"Therefore the result is \boxed{34}.", "34")
    assert (verdict.correct, verdict.pred, verdict.parse_status) == (True, "34", "boxed")


@pytest.mark.parametrize(("answer", "gold"), [("033", "33"), ("33", "033")])
def test_17_leading_zeros(answer, gold):
    assert grade(f"Answer: {answer}", gold).correct


@pytest.mark.parametrize("after", [289, 290, 5000])
def test_18_text_after_the_answer_does_not_hide_it(after):
    verdict = grade("Answer: 34\n" + "x" * after, "34")
    assert verdict.correct
    assert verdict.outside_window == (len("Answer: 34\n") + after > 300)
    assert grade(r"\boxed{34}" + "x" * 91, "34").correct


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("33, or maybe = 34", "34"),
        ("$34$ but could be $35$", "34"),
        ("3,4", "34"),
        ("1, 2, 3", "123"),
        ("3a 4", "34"),
        ("2 hours 34", "234"),
        ("12 = 34", "34"),
    ],
)
def test_19_wrong_answers_that_verl_accepts(answer, gold):
    assert grade(f"Answer: {answer}", gold, mode="verl_compat").correct  # the defect is real
    assert not grade(f"Answer: {answer}", gold).correct


def test_20_placeholders_and_sentinels():
    assert grade("no answer", "[INVALID]", mode="verl_compat").correct
    verdict = grade("no answer", "[INVALID]")
    assert (verdict.correct, verdict.pred, verdict.parse_status) == (False, None, "bad_gold")
    assert grade("no answer", "34").pred is None
    assert grade("Answer: 34\n\nAnswer: $Answer", "34").correct
    assert grade('Answer: 34\nI wrote "Answer: $Answer" as the last line, as asked.', "34").correct
    echoed = 'Answer: 34\nRemember to put your answer on its own line after "Answer:".'
    assert grade(echoed, "34").correct


def test_21_gold_of_the_wrong_type():
    with pytest.raises(ValueError, match="int, not a string"):
        check_gold(34)
    assert grade("Answer: 34", 34).parse_status == "bad_gold"
    assert grade("Answer: 34", "34.0").correct
    assert canonical_gold("34.0") == "34"
    assert grade("Answer: A", "A").correct
    assert grade(r"Answer: 1/2", r"\frac{1}{2}").correct


def test_22_scales():
    assert RewardSettings().correctness_reward(False) == -1.0
    assert RewardSettings(reward_scale="zero_one").correctness_reward(False) == 0.0
    assert RewardSettings(reward_scale="zero_one").correctness_reward(True) == 1.0


def test_23_overlong_numbers():
    values = [soft_overlong_punishment(n, 20480, 4096) for n in (16384, 16385, 20480, 30000)]
    assert values == pytest.approx([0, -1 / 4096, -1, -1], abs=1e-12)
    with pytest.raises(ValueError, match="4096"):
        soft_overlong_punishment(100, 512, 4096)


def test_05_shaped_rewards_of_four_wrong_answers():
    rewards = [-1 + soft_overlong_punishment(n, 20480, 4096) for n in (200, 17000, 19000, 20480)]
    assert rewards == pytest.approx([-1, -1.15, -1.639, -2], abs=1e-3)


def test_25_truncated_trace_is_not_scored_from_a_number_in_it():
    verdict = grade("... so far we have 34 and then", "34", finish_reason="length")
    assert (verdict.correct, verdict.reason) == (False, "truncated")
    assert grade("Answer: 34", "34", finish_reason="length").correct
    assert not grade("Answer: 34", "34", finish_reason="length", truncated_reward="wrong").correct


@pytest.mark.parametrize("buffer", [None, {"enable": False}, {"enable": False, "len": 0}])
def test_26_no_limit_needed_without_penalty(buffer):
    settings = RewardSettings.from_kwargs({"overlong_buffer_cfg": buffer})
    assert settings.overlong_reward(10**6) == 0.0
    with pytest.raises(ValueError, match="max_resp_len"):
        RewardSettings.from_kwargs({"overlong_buffer_cfg": {"enable": True, "len": 16}})


def test_28_a_broken_parser_is_seen(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("reward.strict.extract", broken)
    verdict = grade("Answer: 34", "34")
    assert verdict.error
    assert not verdict.correct
    assert verdict.reason == "error_RuntimeError"


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>", "</s>", "<|eot_id|>"])
def test_57_special_tokens_and_the_next_turn(end):
    assert grade(f"Answer: 34{end}", "34").correct
    assert grade(f"Answer: 34{end}\n<|im_start|>user\nnext\nAnswer: 7", "34").correct
    assert grade("Answer: 34\n\nHuman: next problem ...\nAnswer: 7", "34").correct
    assert extract("\\boxed{34}\n\nUser: again \\boxed{5}").pieces == ("34",)
