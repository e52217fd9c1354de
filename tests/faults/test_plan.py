from collections import Counter
from itertools import pairwise

import pytest

from tests.faults.plan import AT_REST, KINDS, LIVE, LOOP, TRAIN, plan


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_as_often_and_damage_only_after_a_run_that_trained(seed):
    faults = plan(72, seed)
    assert [fault.number for fault in faults] == list(range(72))
    assert Counter(fault.kind for fault in faults) == dict.fromkeys(KINDS, 6)
    assert faults[0].live
    for before, after in pairwise(faults):
        if not after.live:
            assert before.live
            assert before.steps > 0


@pytest.mark.parametrize("seed", range(40))
def test_the_first_start_makes_the_data_and_no_fault_takes_the_only_checkpoint(seed):
    faults = plan(72, seed)
    assert (faults[0].by, faults[0].steps) == (LOOP, 2)
    complete = 0
    for fault in faults:
        complete = min(2, complete + fault.steps)
        if fault.kind == "truncated_checkpoint":
            assert complete == 2
            complete = 1


def test_moments_and_starters_differ():
    live = [fault for fault in plan(110, 1) if fault.live]
    early = [fault for fault in live if fault.steps == 0]
    assert 3 <= len(early) <= 25
    assert {fault.kind for fault in early} <= {"kill_driver", "kill_raylet", "sigterm"}
    assert {fault.by for fault in live} == {LOOP, TRAIN}
    assert len({fault.delay_s for fault in live}) > 40


def test_the_same_seed_is_the_same_campaign():
    assert plan(72, 3) == plan(72, 3)
    assert plan(72, 3) != plan(72, 4)


def test_impossible_campaigns_are_refused():
    with pytest.raises(ValueError, match="unknown faults meteor"):
        plan(5, 1, ["meteor"])
    with pytest.raises(ValueError, match="need as many live ones"):
        plan(3, 1, AT_REST)
    assert len(plan(4, 1, LIVE[:1])) == 4
