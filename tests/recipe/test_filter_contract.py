"""The contract of a group filter. Point it at one of your own:

    DAPO_FILTER=my_package.my_module:MyFilter pytest tests/recipe/test_filter_contract.py

The name is a class or function that returns a filter when called without arguments; training takes the same name as
`trainer.v1.sampler.sampler_kwargs.filter.custom`.
"""

import copy
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipe.group_filter import REASONS, Decision, Group
from recipe.sampler_settings import load_filter

NAME = os.environ.get("DAPO_FILTER", "recipe.group_filter:GroupFilter")


FILTER = load_filter(NAME)


@st.composite
def groups(draw):
    n = draw(st.integers(0, 16))
    accuracies = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n))
    lengths = draw(st.lists(st.integers(1, 20480), min_size=n, max_size=n))
    rewards = [2 * a - 1 - (length > 16384) * 0.5 for a, length in zip(accuracies, lengths, strict=True)]
    cut = [length == 20480 for length in lengths]
    return Group(accuracies, rewards, lengths, cut, expected_samples=draw(st.sampled_from([None, n, n + 1])))


@given(groups())
def test_returns_a_decision_with_a_known_reason(group):
    decision = FILTER.decide(group)
    assert isinstance(decision, Decision)
    assert decision.reason in REASONS
    assert decision.keep == (decision.reason == "kept")


@given(groups())
def test_is_pure(group):
    before = copy.deepcopy(group)
    first = FILTER.decide(group)
    assert group == before, "a filter must not change the group"
    assert FILTER.decide(group) == first, "the same group must get the same answer"


@given(groups())
def test_keeps_no_group_without_a_signal(group):
    if len(set(group.accuracies)) < 2:
        assert not FILTER.decide(group).keep, "every advantage of this group is zero"


@given(groups())
def test_keeps_no_broken_group(group):
    broken = Group(group.accuracies, group.rewards, group.lengths, group.truncated, group.expected_samples, failed=True)
    assert FILTER.decide(broken).reason == "failed"
    if group.expected_samples is not None and len(group.accuracies) < group.expected_samples:
        assert not FILTER.decide(group).keep


def test_keeps_something():
    group = Group([0.0, 1.0] * 8, [-1.0, 1.0] * 8, [100] * 16, [False] * 16, 16)
    assert FILTER.decide(group).keep, "a half-right group of short answers must be trainable"


def test_survives_the_way_to_a_worker():
    group = Group([0.0, 1.0] * 8, [-1.0, 1.0] * 8, [100] * 16, [False] * 16, 16)
    assert pickle.loads(pickle.dumps(FILTER)).decide(group) == FILTER.decide(group)


@given(groups(), st.integers(0, 16))
def test_what_it_foresees_comes_true(group, arrived):
    if not hasattr(FILTER, "settled"):
        pytest.skip(f"{NAME} does not foresee: `settled` is optional")
    n = len(group.accuracies)
    if FILTER.settled(Group(group.accuracies[: min(arrived, n)]), n):
        whole = Group(group.accuracies, group.rewards, group.lengths, group.truncated, n)
        assert FILTER.decide(whole).keep
