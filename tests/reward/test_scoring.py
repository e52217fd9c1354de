"""Numbers that the trainer receives: same keys, plain types, shaped reward, counters."""

import pytest

from reward.scoring import score_sample
from reward.selftest import check_shaping
from reward.settings import RewardSettings

SHAPED = RewardSettings(max_resp_len=64, shaping=True, l_cache=16)
INPUTS = [
    ("Answer: 34", "34"),
    ("Answer: 35", "34"),
    ("nothing", "34"),
    ("Answer: 34", 34),
    ("Answer: 34", None),
    ("", "34"),
    ("Answer: 33, or maybe = 34", "34"),
    ("Answer: $\\frac12$", "1/2"),
    ("\ud800", "[INVALID]"),
]


def sample(response, gold, settings=SHAPED, length=10, truncated=False):
    return score_sample(response, response, gold, length, truncated, settings)


@pytest.mark.parametrize("mode", ["strict", "verl_compat", "tutorial"])
def test_every_sample_has_the_same_keys_and_plain_types(mode):
    infos = [sample(response, gold, RewardSettings(mode=mode))[1] for response, gold in INPUTS]
    assert len({tuple(info) for info in infos}) == 1
    for info in infos:
        assert "reward" not in info
        assert {key: type(value) for key, value in info.items()} == {
            key: type(value) for key, value in infos[0].items()
        }
        assert {type(value) for value in info.values()} == {str, float}


def test_correctness_and_penalty_add_up():
    assert sample("Answer: 34", "34", length=48)[0] == 1.0
    score, info = sample("Answer: 34", "34", length=56)
    assert (score, info["score"], info["acc"], info["overlong_reward"], info["overlong"]) == (0.5, 1.0, 1.0, -0.5, 1.0)
    assert sample("Answer: 35", "34", length=64)[0] == -2.0
    assert sample("Answer: 35", "34", RewardSettings(reward_scale="zero_one"))[0] == 0.0


def test_counters():
    assert sample("Answer: 33, or maybe = 34", "34")[1]["verl_disagrees"] == 1.0
    assert sample("Answer: 34", "34")[1]["verl_disagrees"] == 0.0
    assert sample("Answer: 34", 34)[1]["bad_gold"] == 1.0
    assert sample("nothing", "34")[1]["parse_fail"] == 1.0
    assert sample("nothing", "34")[1]["pred"] == ""
    assert sample("cut", "34", truncated=True)[1]["truncated"] == 1.0
    assert sample("Answer: 34, 35", "34")[1]["several_candidates"] == 1.0
    assert sample("Answer: 34\n" + "x" * 400, "34")[1]["answer_outside_window"] == 1.0


def test_disagreement_is_counted_in_compat_mode_too():
    compat = RewardSettings(mode="verl_compat")
    score, info = sample("**Answer:** 34", "34", compat)
    assert (score, info["verl_disagrees"]) == (-1.0, 1.0)


def test_a_grading_error_is_counted(monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("reward.strict.extract", broken)
    score, info = sample("Answer: 34", "34")
    assert (score, info["reward_error"], info["acc"]) == (-1.0, 1.0, 0.0)


def test_shaping_self_test():
    check_shaping(SHAPED, 1.0, 0.0)
    check_shaping(RewardSettings(), 1.0, 1.0)
    with pytest.raises(ValueError, match="penalty is not applied"):
        check_shaping(SHAPED, 1.0, 1.0)
    with pytest.raises(ValueError, match="shaping is off"):
        check_shaping(RewardSettings(), 1.0, 0.5)
