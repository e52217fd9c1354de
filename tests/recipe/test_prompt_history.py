import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipe.prompt_history import PromptHistory, SkipRule


def history(*accuracies, **rule):
    memory = PromptHistory(SkipRule(**rule))
    for accuracy in accuracies:
        memory.record("p", accuracy)
    return memory


def test_probability_grows_with_the_streak():
    assert [history(*[0.0] * n).skip_probability("p") for n in range(5)] == [0, 0, 0.5, 0.75, 0.875]
    assert history(*[1.0] * 5).skip_probability("p") == 0.9


def test_a_mixed_group_ends_the_streak_and_so_does_the_other_extreme():
    assert history(0, 0, 0, 0.25).skip_probability("p") == 0
    assert history(0, 0, 0, 1.0).streak("p") == (1, "solved")
    assert PromptHistory().skip_probability("never seen") == 0


def test_outcomes_can_be_switched_off_apart():
    assert history(0, 0, hopeless=False).skip_probability("p") == 0
    assert history(1, 1, hopeless=False).skip_probability("p") == 0.5


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=60), st.floats(0, 0.999), st.floats(0, 0.999))
def test_no_prompt_is_ever_retired(accuracies, skip, max_skip):
    assert 0 <= history(*accuracies, skip=skip, max_skip=max_skip).skip_probability("p") < 1


def test_skips_as_often_as_it_says():
    memory = history(0, 0, 0)
    assert 0.70 < sum(memory.should_skip("p") for _ in range(2000)) / 2000 < 0.80


def test_draws_go_on_after_a_checkpoint_as_if_nothing_had_happened():
    memory = history(0, 0)
    first = [memory.should_skip("p") for _ in range(20)]
    state = json.loads(json.dumps(memory.state_dict()))
    rest = [memory.should_skip("p") for _ in range(20)]
    resumed = PromptHistory(memory.rule)
    resumed.load_state_dict(state)
    assert [resumed.should_skip("p") for _ in range(20)] == rest
    assert len({True, False} & {*first, *rest}) == 2
    assert resumed.accuracies == {"p": [0.0, 0.0]}


def test_memory_is_bounded_and_counted():
    memory = PromptHistory(keep=3)
    for accuracy in (1, 0, 0.5, 1, 1):
        memory.record("a", accuracy)
    memory.record("b", 0)
    assert memory.accuracies["a"] == [0.5, 1, 1]
    assert memory.counts() == {"solved": 1, "hopeless": 1, "mixed": 0}


@pytest.mark.parametrize("bad", [{"skip": 1.0}, {"max_skip": 1.0}, {"skip": -0.1}, {"streak": 0}])
def test_rules_that_retire_a_prompt_are_refused(bad):
    with pytest.raises(ValueError, match=f"history.{next(iter(bad))}"):
        SkipRule(**bad)


def test_bad_records_are_refused():
    with pytest.raises(ValueError, match="outside 0"):
        PromptHistory().record("p", -1.0)
    with pytest.raises(ValueError, match=r"history.keep=1"):
        PromptHistory(keep=1)
