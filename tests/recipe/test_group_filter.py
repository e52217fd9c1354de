import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipe.group_filter import REASONS, Decision, Group, GroupFilter, is_settled


def reason(accuracies, filter_=None, **group):
    return (filter_ or GroupFilter()).decide(Group(accuracies, **group)).reason


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([0, 0, 0, 0], "all_wrong"),
        ([1, 1, 1, 1], "all_correct"),
        ([0, 0, 0, 1], "kept"),
        ([1, 1, 1, 0], "kept"),
        ([0.1, 0.1, 0.1], "no_spread"),  # numpy.std of these is 1.4e-17, not 0
        ([0.7, 0.7, 0.7], "no_spread"),
        ([], "incomplete"),
        ([0.0, math.nan], "failed"),
    ],
)
def test_dapo_rule(accuracies, expected):
    assert reason(accuracies) == expected


def test_band_on_the_group_mean():
    """PAIN_POINTS 32: means 0.125, 0.5, 0.875 with bounds (0.2, 0.8) keep only the second."""
    band = GroupFilter(low=0.2, high=0.8)
    assert [reason([1] * k + [0] * (8 - k), band) for k in (1, 4, 7)] == ["too_hard", "kept", "too_easy"]


@pytest.mark.parametrize(("inclusive", "expected"), [(True, ["kept", "kept"]), (False, ["too_hard", "too_easy"])])
def test_bounds_are_in_or_out(inclusive, expected):
    # 3 of 10 and 7 of 10: sums of ones are exact, the bounds 0.3 and 0.7 are not; the tolerance decides
    band = GroupFilter(low=0.3, high=0.7, inclusive=inclusive)
    assert [reason([1] * k + [0] * (10 - k), band) for k in (3, 7)] == expected


def test_no_bound_still_drops_groups_without_spread():
    free = GroupFilter(low=None, high=None)
    assert [reason(a, free) for a in ([0, 0], [1, 1], [0, 1])] == ["all_wrong", "all_correct", "kept"]


def test_minimum_spread_for_graded_metrics():
    graded = GroupFilter(min_spread=0.3)
    assert [reason(a, graded) for a in ([0.5, 0.6], [0.4, 0.7], [0.2, 0.9])] == ["no_spread", "kept", "kept"]


def test_broken_groups():
    assert reason([0, 1], expected_samples=4) == "incomplete"
    assert reason([0, 1], failed=True) == "failed"
    with pytest.raises(ValueError, match=r"Group\.rewards has 1 entries, accuracies has 2"):
        Group([0, 1], rewards=[1.0])


OVERLONG = {"accuracies": [0, 0, 0, 0], "rewards": [-1, -1.15, -1.639, -2], "lengths": [200, 17000, 19000, 20480]}


def test_all_wrong_group_of_different_lengths_is_dropped():
    """PAIN_POINTS 5: on the shaped reward this group has a standard deviation of 0.458."""
    assert GroupFilter().decide(Group(**OVERLONG)).reason == "all_wrong"
    forced = GroupFilter(metric="reward", reward_is_shaped=True, force=True, low=None, high=None)
    assert forced.decide(Group(**OVERLONG)).keep


@pytest.mark.parametrize("metric", ["reward", "score", "seq_reward", "seq_final_reward"])
def test_shaped_reward_is_refused_unless_forced(metric):
    with pytest.raises(ValueError, match=rf"filter\.metric='{metric}'.*filter\.metric=acc"):
        GroupFilter(metric=metric, reward_is_shaped=True, low=None, high=None)
    GroupFilter(metric=metric, low=None, high=None)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"metric": "accuracy"}, "filter.metric='accuracy'"),
        ({"metric": "reward"}, "in units of the reward"),
        ({"low": 0.8, "high": 0.2}, r"filter.low=0.8 must be below filter.high=0.2"),
        ({"tol": -1}, "filter.tol=-1"),
        ({"min_spread": math.nan}, "filter.min_spread=nan"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        GroupFilter(**bad)


def test_overlong_filtering_needs_a_live_sample_with_a_signal():
    masking = GroupFilter(mask_truncated=True)
    assert reason([0, 1], masking, truncated=[True, False]) == "kept"
    assert reason([0, 1], masking, truncated=[True, True]) == "no_spread"
    assert reason([0.0, 0.5, 1.0], masking, truncated=[True, False, True]) == "no_spread"  # the live one is the mean


def test_decision_cannot_contradict_itself():
    for keep, name in ((True, "all_wrong"), (False, "kept"), (False, "because")):
        with pytest.raises(ValueError, match="reason="):
            Decision(keep, name)


def test_partial_group_is_settled_once_it_cannot_be_dropped():
    assert is_settled(GroupFilter(), Group([1, 0]), 16)
    assert not is_settled(GroupFilter(), Group([1, 1]), 16)
    assert not is_settled(GroupFilter(low=0.2, high=0.8), Group([1, 0]), 16)  # the rest may all be right
    assert is_settled(GroupFilter(low=0.2, high=0.8), Group([1, 1, 0, 0]), 6)
    assert not is_settled(object(), Group([1, 0]), 16)


samples = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1, max_size=16)
filters = st.builds(
    GroupFilter,
    low=st.one_of(st.none(), st.floats(0, 0.4)),
    high=st.one_of(st.none(), st.floats(0.5, 1)),
    inclusive=st.booleans(),
    min_spread=st.floats(0, 0.5),
)


@given(samples, filters)
def test_a_kept_group_has_an_advantage_that_is_not_zero(accuracies, filter_):
    decision = filter_.decide(Group(accuracies))
    assert decision.reason in REASONS
    if decision.keep:
        mean = sum(accuracies) / len(accuracies)
        assert max(abs(a - mean) for a in accuracies) > 1e-7


@given(samples, filters, st.randoms())
def test_the_order_of_the_samples_does_not_matter(accuracies, filter_, rng):
    shuffled = list(accuracies)
    rng.shuffle(shuffled)
    # sums of floats may differ in the last bit, the tolerance must swallow that away from its own edge
    edge = min(
        (abs(sum(accuracies) / len(accuracies) - b) for b in (filter_.low, filter_.high) if b is not None), default=1
    )
    if abs(edge - filter_.tol) > 1e-9 and edge > 0:
        assert filter_.decide(Group(accuracies)) == filter_.decide(Group(shuffled))


@given(samples, filters, st.data())
def test_settled_is_never_wrong(accuracies, filter_, data):
    arrived = data.draw(st.integers(0, len(accuracies)))
    if is_settled(filter_, Group(accuracies[:arrived]), len(accuracies)):
        assert filter_.decide(Group(accuracies)).keep


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=8), st.integers(1, 8))
def test_what_is_foreseen_under_masking_comes_true(samples, arrived):
    rule = GroupFilter(mask_truncated=True)
    accuracies, cut = zip(*samples, strict=True)
    so_far = Group(accuracies[:arrived], truncated=cut[:arrived])
    if is_settled(rule, so_far, len(samples)):
        assert rule.decide(Group(accuracies, truncated=cut)).keep


def test_under_masking_two_live_samples_that_differ_settle_a_group():
    rule = GroupFilter(mask_truncated=True)
    assert is_settled(rule, Group([1, 0, 0], truncated=[False, True, False]), 16)
    assert not is_settled(rule, Group([1, 0], truncated=[False, True]), 16)
