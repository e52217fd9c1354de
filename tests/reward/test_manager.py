"""The verl shell: loaded by verl's own loader, fed a DataProto as verl feeds it, self-test at start."""

import asyncio

import pytest

pytest.importorskip("verl")
np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from omegaconf import OmegaConf  # noqa: E402
from verl import DataProto  # noqa: E402
from verl.trainer.ppo.reward import load_reward_manager, resolve_reward_manager_cls  # noqa: E402

from reward.selftest import selftest  # noqa: E402

LIMIT = 64


class Tokenizer:
    """One token a character; 0 pads, 1 ends a turn."""

    all_special_ids = (0, 1)

    def encode(self, text, add_special_tokens=True):
        return [ord(char) + 2 for char in text]

    def decode(self, ids, skip_special_tokens=False):
        marks = {0: "<pad>", 1: "<|im_end|>"}
        return "".join("" if i in marks and skip_special_tokens else marks.get(i) or chr(i - 2) for i in ids)


def config(enable=True, **kwargs):
    buffer = {"enable": enable, "len": 16, "penalty_factor": 1.0, "log": True}
    return OmegaConf.create(
        {
            "data": {"max_response_length": LIMIT},
            "reward": {
                "reward_manager": {
                    "source": "importlib",
                    "name": "DAPORewardManager",
                    "module": {"path": "pkg://reward.manager", "name": "custom_reward_manager"},
                },
                "reward_kwargs": {
                    "max_resp_len": "${data.max_response_length}",
                    "overlong_buffer_cfg": buffer,
                    **kwargs,
                },
            },
        }
    )


def score(manager, ids, gold="34", extra=None, pad=0):
    """Through ``run_single``, right-padded by ``pad`` tokens."""
    width = len(ids) + pad
    tensors = {
        "prompts": torch.tensor([[5, 6]]),
        "responses": torch.tensor([ids + [0] * pad]),
        "attention_mask": torch.tensor([[1, 1] + [1] * len(ids) + [0] * pad]),
    }
    assert tensors["responses"].shape[1] == width
    non_tensors = {
        "reward_model": np.array([{"ground_truth": gold, "style": "rule"}], dtype=object),
        "data_source": np.array(["any"], dtype=object),
        "extra_info": np.array([{}], dtype=object),
        "tool_extra_fields": np.array([extra or {}], dtype=object),
    }
    return asyncio.run(manager.run_single(DataProto.from_dict(tensors=tensors, non_tensors=non_tensors)))


@pytest.fixture(scope="module")
def manager():
    return load_reward_manager(config(), Tokenizer())


def text(content, end=True):
    return Tokenizer().encode(content) + ([1] if end else [])


def test_verl_resolves_the_class():
    assert resolve_reward_manager_cls(config()).__name__ == "DAPORewardManager"


def test_right_answer_with_padding(manager):
    result = score(manager, text("Answer: 34"), pad=7)
    info = result["reward_extra_info"]
    assert result["reward_score"] == 1.0
    assert (info["acc"], info["pred"], info["response_tokens"], info["truncated"]) == (1.0, "34", 11.0, 0.0)


def test_only_the_last_row_of_several_is_scored(manager):
    assert score(manager, text("Answer: 35"))["reward_score"] == -1.0


def test_truncation_from_length_or_from_the_server(manager):
    full = text("x" * (LIMIT - 10) + "Answer: 34", end=False)
    assert len(full) == LIMIT
    cut = score(manager, full)
    assert (cut["reward_score"], cut["reward_extra_info"]["truncated"]) == (0.0, 1.0)
    ended = score(manager, text("x" * (LIMIT - 11) + "Answer: 34"))["reward_extra_info"]
    assert ended["truncated"] == 0.0
    told = score(manager, text("Answer: 3", end=False), extra={"finish_reason": "length"})["reward_extra_info"]
    assert told["truncated"] == 1.0


def test_a_runaway_turn_is_cut_at_its_special_token(manager):
    ids = text("Answer: 34") + text("\nAnswer: 7")
    info = score(manager, ids)["reward_extra_info"]
    assert (info["acc"], info["pred"], info["verl_disagrees"]) == (1.0, "34", 1.0)


def test_bad_gold_never_raises(manager):
    info = score(manager, text("Answer: 34"), gold=34)["reward_extra_info"]
    assert (info["acc"], info["parse_status"], info["bad_gold"]) == (0.0, "bad_gold", 1.0)


def test_selftest():
    assert selftest(config(), Tokenizer()) == {"short": -1.0, "at_limit": -2.0}
    assert selftest(config(enable=False), Tokenizer()) == {"short": -1.0, "at_limit": -1.0}


def test_selftest_refuses_a_manager_that_does_not_shape():
    other = config()
    other.reward.reward_manager = {"source": "register", "name": "naive"}
    with pytest.raises(ValueError, match="penalty is not applied"):
        selftest(other, Tokenizer())


def test_wrong_keys_stop_the_start():
    with pytest.raises(ValueError, match="unknown keys"):
        load_reward_manager(config(overlong={"enable": True}), Tokenizer())
