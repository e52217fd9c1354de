"""Truncated answers leave the loss in verl's own agent loop, and settings that would not do it are refused."""

import functools
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from recipe.compose import compose
from recipe.preflight import check_recipe

ON, LIMIT = "overlong_filtering.enable=true", 8

WRONG = {
    "both methods": ([ON], "one or the other"),
    "another loss": (["technique=naive_grpo", ON, "actor_rollout_ref.actor.policy_loss.loss_mode=vanilla"], "vanilla"),
    "another agent loop": (
        ["technique=naive_grpo", ON, "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent"],
        "masks nothing",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_settings_that_mask_nothing_or_twice_are_refused(name):
    overrides, message = WRONG[name]
    (problem,) = check_recipe(compose(overrides))
    assert message in problem


@pytest.mark.parametrize("overrides", [["technique=naive_grpo", ON], [ON, "overlong_filtering.force=true"]])
def test_filtering_alone_or_forced_is_accepted(overrides):
    assert check_recipe(compose(overrides)) == []


def test_group_filter_follows_the_switch():
    key = "trainer.v1.sampler.sampler_kwargs.filter.mask_truncated"
    assert OmegaConf.select(compose([ON]), key) is True
    assert OmegaConf.select(compose([]), key) is False


class Server:
    """An engine that has already decided what it answers."""

    def __init__(self, ids):
        self.ids = ids

    async def generate(self, **_):
        from verl.workers.rollout.replica import TokenOutput

        return TokenOutput(token_ids=self.ids, log_probs=[-0.5] * len(self.ids), extra_fields={})


@functools.cache
def recipe(enable):
    return compose([f"data.max_response_length={LIMIT}", f"overlong_filtering.enable={enable}"])


def answer(ids, enable):
    """What verl's agent loop worker would get from the loop that the recipe names."""
    pytest.importorskip("verl")
    from hydra.utils import instantiate
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
    from verl.utils.dataset.rl_dataset import RLHFDataset

    from data_prep.tiny_model import build_tokenizer
    from recipe import agent_loop

    config = recipe(enable)
    name = config.actor_rollout_ref.rollout.agent.default_agent_loop
    assert name == agent_loop.NAME
    tokenizer = build_tokenizer()
    ids = [tokenizer.eos_token_id if i == "eos" else i for i in ids]
    loop = instantiate(
        _agent_loop_registry[name],
        trainer_config=DictConfigWrap(config=config),
        server_manager=Server(ids),
        tokenizer=tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=DictConfigWrap(config.data),
        tools=ToolListWrap([]),
    )
    output = loop.loop.run_until_complete(loop.run({}, raw_prompt=[{"role": "user", "content": "1+1="}]))
    return SimpleNamespace(**output.as_dict())


@pytest.mark.parametrize(
    ("ids", "truncated"),
    [
        ([65] * (LIMIT - 1) + ["eos"], False),  # at the limit, but it ended by itself
        ([65] * LIMIT, True),
        ([65, "eos"], False),
        ([65] * (LIMIT + 1), True),
    ],
)
@pytest.mark.parametrize("enable", [True, False])
def test_truncated_answer_is_masked_and_nothing_else_of_it_changes(ids, truncated, enable):
    output = answer(ids, enable)
    masked = truncated and enable
    assert output.response_mask.tolist() == [0 if masked else 1] * min(len(ids), LIMIT)
    assert len(output.responses) == len(output.rollout_log_probs) == min(len(ids), LIMIT)
    assert output.extra_fields["finish_reason"] == ("length" if truncated else "stop")
    assert output.extra_fields["loss_masked"] == float(masked)
