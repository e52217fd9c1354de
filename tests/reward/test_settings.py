"""The reward's own configuration keys."""

import pytest

from reward.settings import RewardSettings

BUFFER = {"enable": True, "len": 16, "penalty_factor": 0.5, "log": True}


def test_full_configuration():
    settings = RewardSettings.from_kwargs({"mode": "tutorial", "max_resp_len": 64, "overlong_buffer_cfg": BUFFER})
    assert settings.mode == "tutorial"
    assert [settings.overlong_reward(n) for n in (48, 56, 64, 999)] == [0.0, -0.25, -0.5, -0.5]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"mode": "lenient"}, "mode='lenient'.*strict"),
        ({"answer_format": "xml"}, "answer_format='xml'"),
        ({"reward_scale": "pm"}, "reward_scale='pm'"),
        ({"truncated_reward": "zero"}, "truncated_reward='zero'"),
        ({"max_response_len": 1}, "unknown keys.*max_response_len"),
        ({"overlong_buffer_cfg": {"enable": True, "length": 3}}, "unknown keys.*length"),
        ({"max_resp_len": 16, "overlong_buffer_cfg": BUFFER}, "0 < len < max_resp_len=16"),
        ({"max_resp_len": 64, "overlong_buffer_cfg": {"enable": True}}, "len is missing"),
    ],
)
def test_wrong_values_name_the_key(kwargs, message):
    with pytest.raises(ValueError, match=message):
        RewardSettings.from_kwargs(kwargs)


def test_an_ignored_switch_warns():
    with pytest.warns(UserWarning, match="always logged"):
        RewardSettings.from_kwargs({"overlong_buffer_cfg": {"enable": False, "log": False}})
