"""Ledger and controller against a world that finishes groups in any order."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipe.acceptance import AcceptanceEstimate, DispatchPlanner
from recipe.dispatch import ABANDON, DISPATCH, END, WAIT, Bounds, RolloutsFail, SamplingExhausted, StepController
from recipe.group_filter import Decision
from recipe.step_ledger import StepLedger

KEEP, DROP = Decision(True, "kept"), Decision(False, "all_wrong")


def control(needed=4, in_flight=8, carried=(), **bounds):
    ledger = StepLedger(needed)
    ledger.carry_in(carried)
    limits = Bounds(**{"max_generated": 50, **bounds})
    return StepController(ledger, DispatchPlanner(in_flight), AcceptanceEstimate(), limits)


def play(controller, fate, rng, stuck=lambda i: False):
    """Run a step; ``fate(i)`` decides the i-th group sent, finished in random order, one a second. The outcome."""
    ledger, now = controller.ledger, 0.0
    while (action := controller.next_action(now)).kind != END:
        if action.kind == DISPATCH:
            ledger.dispatch([f"g{ledger.generated + i}" for i in range(action.count)], now)
        elif action.kind == WAIT:
            now += 1.0
            ready = [u for u in ledger.pending() if not stuck(int(u[1:]))]
            if ready:
                uid = rng.choice(ready)
                ledger.resolve(uid, fate(int(uid[1:])), now, tokens=10)
        else:
            assert action.kind == ABANDON
    return action.outcome


def test_which_groups_train_is_decided_in_dispatch_order():
    ledger = StepLedger(2)
    ledger.dispatch(["a", "b", "c", "d"], 0.0)
    for uid, decision in (("d", KEEP), ("c", KEEP)):
        ledger.resolve(uid, decision, 1.0)
    assert ledger.kept == 2
    assert not ledger.full()  # a and b were sent before and may still be kept
    ledger.resolve("a", KEEP, 2.0)
    assert not ledger.full()
    ledger.resolve("b", DROP, 3.0)
    assert ledger.full()
    assert ledger.selected() == ["a", "c"]
    assert ledger.surplus() == ["d"]


def test_short_answers_are_not_favoured():
    """Kept groups with a low index finish last; the trained ones are the low ones all the same."""
    controller = control(needed=10, in_flight=40)
    ledger = controller.ledger
    ledger.dispatch([f"g{i}" for i in range(40)], 0.0)
    for i in reversed(range(40)):
        ledger.resolve(f"g{i}", KEEP if i % 2 else DROP, 1.0)
    assert ledger.selected() == [f"g{i}" for i in range(1, 20, 2)]


fates = st.lists(st.booleans(), min_size=300, max_size=300)


@given(fates, st.integers(1, 12), st.integers(1, 30), st.integers(0, 5), st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_exact_batch_or_a_bound_and_nothing_lost(fate, needed, in_flight, carried, seed):
    controller = control(
        needed, in_flight, [f"c{i}" for i in range(carried)], max_generated=60, on_exhausted="train_partial"
    )
    outcome = play(controller, lambda i: KEEP if fate[i] else DROP, random.Random(seed))
    ledger, counts = controller.ledger, controller.ledger.counts()
    kept = [f"c{i}" for i in range(carried)] + [f"g{i}" for i in range(ledger.generated) if fate[i]]
    assert ledger.selected() + ledger.surplus() == kept  # none lost, none twice, in dispatch order
    assert len(ledger.selected()) == min(needed, len(kept))
    assert (outcome == "full") == (len(kept) >= needed)
    assert sum(counts.values()) == ledger.generated <= 60
    assert not ledger.pending()
    assert sum(entry.tokens for entry in ledger.entries.values()) == 10 * ledger.generated


@given(st.integers(0, 2**16), st.sampled_from(["max_generated", "max_passes", "max_seconds"]))
@settings(max_examples=30, deadline=None)
def test_ends_under_every_bound_when_nothing_can_be_kept(seed, bound):
    limit = {
        "max_generated": {"max_generated": 20},
        "max_passes": {"max_generated": None, "max_passes": 2.5, "rows": 8},
        "max_seconds": {"max_generated": 10**6, "max_seconds": 30.0},
    }[bound]
    controller = control(on_exhausted="skip_step", **limit)
    assert play(controller, lambda i: DROP, random.Random(seed)) == "skip_step"
    assert controller.ledger.generated <= (100 if bound == "max_seconds" else 20)
    assert controller.ledger.selected() == []


@pytest.mark.parametrize(
    ("reason", "advice"),
    [("all_wrong", "too hard"), ("all_correct", "too easy"), ("incomplete", "logs"), ("too_hard", "lower filter.low")],
)
def test_error_has_the_counts_and_what_to_change(reason, advice):
    controller = control(needed=4, max_generated=12)
    fate = lambda i: KEEP if i == 3 else Decision(False, reason)  # noqa: E731
    with pytest.raises(SamplingExhausted) as error:
        play(controller, fate, random.Random(0))
    message = str(error.value)
    for part in ("12 generated prompts", "1 of 4 groups", "kept 1", f"{reason} 11", advice, "on_exhausted"):
        assert part in message


@pytest.mark.parametrize("on_exhausted", ["error", "train_partial", "skip_step"])
def test_a_dead_engine_ends_the_step_long_before_the_bound(on_exhausted):
    controller = control(needed=4, max_generated=10**6, on_exhausted=on_exhausted)
    fate = lambda i: KEEP if i < 3 else Decision(False, "failed")  # noqa: E731
    with pytest.raises(RolloutsFail, match=r"8 groups failed in one step, [0-3] of 4 are kept"):
        play(controller, fate, random.Random(0))
    assert controller.ledger.generated <= 3 + 8 + 8


def test_a_few_failed_groups_are_refilled():
    controller = control(needed=4)
    assert play(controller, lambda i: Decision(False, "failed") if i < 7 else KEEP, random.Random(0)) == "full"


def test_partial_training_without_any_group_skips_the_step():
    controller = control(max_generated=6, on_exhausted="train_partial")
    assert play(controller, lambda i: DROP, random.Random(0)) == "skip_step"


def test_stuck_prompt_is_given_up_refilled_and_stays_dead():
    controller = control(needed=4, give_up_after_s=10.0)
    outcome = play(controller, lambda i: KEEP, random.Random(0), stuck=lambda i: i == 1)
    ledger = controller.ledger
    assert outcome == "full"
    assert ledger.counts()["given_up"] == 1
    assert ledger.entries["g1"].state == "given_up"
    assert ledger.selected() == ["g0", "g2", "g3", "g4"]
    assert not ledger.resolve("g1", KEEP, 99.0)  # a late delivery changes nothing
    assert "g1" not in ledger.selected() + ledger.surplus()


def test_wall_clock_abandons_what_hangs():
    controller = control(max_seconds=5.0, on_exhausted="skip_step")
    assert play(controller, lambda i: DROP, random.Random(0), stuck=lambda i: True) == "skip_step"
    assert controller.ledger.counts()["given_up"] == 4


def test_full_batch_drains_or_aborts_what_still_runs():
    for abort, expected in ((False, WAIT), (True, ABANDON)):
        controller = control(needed=1, abort_surplus=abort)
        controller.ledger.dispatch(["a", "b"], 0.0)
        controller.ledger.resolve("a", KEEP, 1.0)
        assert controller.next_action(1.0).kind == expected
    assert controller.ledger.counts()["aborted"] == 1
    assert controller.next_action(1.0).outcome == "full"


def test_failed_groups_are_refilled_and_counted():
    controller = control(needed=3)
    fate = lambda i: Decision(False, "failed") if i < 2 else KEEP  # noqa: E731
    assert play(controller, fate, random.Random(0)) == "full"
    assert controller.ledger.counts()["failed"] == 2


def test_carried_groups_train_first_and_are_not_generated():
    controller = control(needed=3, carried=["x", "y"])
    assert controller.next_action(0.0).count == 1
    play(controller, lambda i: KEEP, random.Random(0))
    assert controller.ledger.selected() == ["x", "y", "g0"]
    assert controller.ledger.generated == 1


def test_close_teaches_the_rate_from_this_step_only():
    controller = control(needed=2, carried=["x"], max_generated=9, on_exhausted="skip_step")
    play(controller, lambda i: DROP, random.Random(0))
    controller.close()
    assert controller.estimate.seen[0] == 9
    assert controller.estimate.kept[0] == 0


def test_cohort_leaves_out_early_finishers_sent_later():
    ledger = StepLedger(4)
    ledger.dispatch([f"g{i}" for i in range(20)], 0.0)
    for i in range(10, 20):
        ledger.resolve(f"g{i}", DROP, 1.0)
    assert ledger.progress().cohort == 0
    for i in range(9):
        ledger.resolve(f"g{i}", KEEP, 2.0)
    seen = ledger.progress()
    assert (seen.cohort, seen.cohort_kept, seen.in_flight) == (19, 9, 1)


def test_partial_groups_lower_the_load_and_settle():
    ledger = StepLedger(4)
    ledger.dispatch(["a", "b"], 0.0)
    ledger.foresee("a", arrived=3, expected=4, settled=False)
    ledger.foresee("b", arrived=2, expected=4, settled=True)
    ledger.foresee("unknown", arrived=2, expected=4, settled=True)
    seen = ledger.progress()
    assert (seen.load, seen.settled, seen.open_by_arrived) == (0.75, 1, {3: 1})


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="needed=0"):
        StepLedger(0)
    ledger = StepLedger(1)
    ledger.dispatch(["a"], 0.0)
    with pytest.raises(ValueError, match="sent twice"):
        ledger.dispatch(["a"], 1.0)
    with pytest.raises(ValueError, match="carry_in first"):
        ledger.carry_in(["b"])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"max_generated": None}, "both null"),
        ({"max_generated": 0}, "max_generated=0"),
        ({"max_passes": 2.0}, "needs rows"),
        ({"on_exhausted": "stop"}, "on_exhausted='stop'"),
    ],
)
def test_bounds_that_do_not_bound_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        Bounds(**{"max_generated": 5, **bad})
