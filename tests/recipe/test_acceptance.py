import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipe.acceptance import AcceptanceEstimate, DispatchPlanner
from recipe.step_ledger import Progress


def progress(needed=8, kept=0, settled=0, states=None, load=None, cohort=0, cohort_kept=0):
    states = states or {}
    load = settled + sum(states.values()) if load is None else load
    return Progress(needed, kept, settled, states, load, cohort, cohort_kept)


def trained(kept, dropped, arrived=0):
    estimate = AcceptanceEstimate()
    estimate.observe([(True, arrived)] * kept + [(False, arrived)] * dropped)
    return estimate


def test_first_wave_is_one_batch_when_nothing_is_known():
    assert DispatchPlanner(1000).plan(progress(needed=64), AcceptanceEstimate()) == 64


def test_rate_is_the_beta_mean_and_its_spread():
    estimate = trained(98, 100)
    assert estimate.rate() == pytest.approx(100 / 200)
    assert estimate.rate(kept=0, decided=50) == pytest.approx(100 / 250)
    assert estimate.uncertainty() == pytest.approx(math.sqrt(0.25 / 201))


def test_old_steps_fade():
    estimate = AcceptanceEstimate(memory=100)
    estimate.observe([(False, 0)] * 1000)
    estimate.observe([(True, 0)] * 100)
    assert estimate.seen[0] == pytest.approx(100)
    assert estimate.rate() == pytest.approx(52 / 102)


def test_equal_samples_lower_the_chance_as_history_says():
    estimate = AcceptanceEstimate(prior_weight=1e-9)
    estimate.observe([(True, 0)] * 50 + [(True, 2)] * 10 + [(False, 4)] * 40)
    assert estimate.chances(estimate.rate(), 4) == pytest.approx([0.6, 0.2, 0.2, 0.0, 0.0], abs=1e-6)


def test_unknown_states_decline_from_the_rate():
    assert AcceptanceEstimate().chances(0.5, 2) == pytest.approx([0.5, 0.4, 0.32])


def test_estimate_survives_a_checkpoint():
    estimate = trained(10, 30, arrived=3)
    other = AcceptanceEstimate()
    other.load_state_dict(json.loads(json.dumps(estimate.state_dict())))
    assert other == estimate


def test_sends_the_expected_shortfall_when_it_does_not_hedge():
    planner, estimate = DispatchPlanner(1000, hedge=0), trained(48, 150)  # rate 50 / 200
    assert planner.plan(progress(needed=20), estimate) == 80
    assert planner.plan(progress(needed=20, kept=5, settled=5, states={0: 20}), estimate) == 20
    assert planner.plan(progress(needed=20, kept=5, settled=5, states={0: 40}), estimate) == 0
    assert planner.plan(progress(needed=20, kept=20), estimate) == 0


def test_looks_only_at_the_oldest_groups_of_the_step():
    planner, estimate = DispatchPlanner(1000, hedge=0), trained(48, 150)
    assert planner.plan(progress(needed=20, cohort=50, cohort_kept=0), estimate) == 100  # rate 50 / 250


def test_respects_the_in_flight_limit_and_never_stalls():
    estimate = trained(0, 500)
    assert DispatchPlanner(30).plan(progress(states={0: 25}), estimate) == 5
    assert DispatchPlanner(30).plan(progress(states={0: 40}), estimate) == 0
    assert DispatchPlanner(30).plan(progress(states={4: 40}, load=10.2), estimate) == 19
    assert DispatchPlanner(1).plan(progress(), estimate) == 1


def test_a_dispatch_is_worth_its_while_unless_it_is_the_last():
    planner, estimate = DispatchPlanner(30, hedge=0, chunk=8), trained(48, 150)
    assert planner.plan(progress(needed=20, states={0: 23}), estimate) == 0
    assert planner.plan(progress(needed=20, states={0: 22}), estimate) == 8
    assert planner.plan(progress(needed=7, states={0: 25}), estimate) == 3
    assert planner.plan(progress(needed=20), estimate) == 30


@pytest.mark.parametrize("bad", [{"max_in_flight": 0}, {"hedge": -1}, {"open_share": 1.0}])
def test_impossible_limits_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        DispatchPlanner(**{"max_in_flight": 8, **bad})


@given(st.floats(-20, 300), st.floats(0, 80), st.floats(0.02, 1), st.sampled_from([0.0, 0.5, 1.5, 2.0]))
def test_prompts_for_is_the_smallest_number_that_covers_the_hedge(missing, variance, rate, hedge):
    def covers(m, slack=0.0):
        return m * rate - hedge * math.sqrt(variance + m * rate * (1 - rate)) >= missing - slack

    count = DispatchPlanner(1, hedge=hedge).prompts_for(missing, variance, rate)
    assert covers(count, 1e-6)
    assert count == 0 or not covers(count - 1, -1e-6)


@pytest.mark.parametrize("rate", [0.1, 0.35, 0.8])
def test_hedge_fills_the_batch_as_often_as_it_promises(rate):
    """Phi(2) is 0.977: one wave of the planned size must suffice in about 98 of 100 steps."""
    count, rng = DispatchPlanner(1, hedge=2.0).prompts_for(64, 0.0, rate), random.Random(1)
    filled = sum(sum(rng.random() < rate for _ in range(count)) >= 64 for _ in range(1500)) / 1500
    assert 0.96 < filled < 0.99
