import pytest

from tests.faults.ledger import Ledger, OtherCampaign, only_one

PLAN = {"count": 5, "seed": 1, "kinds": "sigterm", "faults": ["a", "b"]}


def record(number, *problems):
    return {"number": number, "kind": "sigterm", "fault": f"fault {number}", "problems": [*problems]}


@pytest.fixture
def ledger(tmp_path):
    """Makes a ledger of one file, as a later process would read it."""
    return lambda plan=PLAN: Ledger(tmp_path / "faults.json", plan)


def test_faults_that_wait_for_a_judgement_are_neither_done_again_nor_forgotten(ledger):
    first = ledger()
    first.add(record(0))
    first.add(record(1, "unclear last line"))
    later = ledger()
    assert later.done == {0, 1}
    assert later.records == []
    later.settle(["first step 3 instead of 2"], 1, 60.5)
    assert ledger().pending == []
    problems = [found["problems"] for found in ledger().records]
    assert problems == [["first step 3 instead of 2"], ["unclear last line", "first step 3 instead of 2"]]
    assert {(found["resumed_from"], found["seconds_to_recover"]) for found in ledger().records} == {(1, 60.5)}


def test_another_campaign_is_refused(ledger):
    ledger().add(record(0))
    with pytest.raises(OtherCampaign, match="go on with --count 5 --seed 1 --kinds sigterm"):
        ledger(PLAN | {"seed": 2})
    with pytest.raises(OtherCampaign):
        ledger(PLAN | {"faults": ["a", "c"]})


def test_losses_are_done_again_and_kept(ledger):
    first = ledger()
    for number in (0, 1):
        first.add(record(number, *["lost"] * number))
    first.settle([], 1, 1.0)
    first.forget_losses()
    assert ledger().done == {0}
    assert [found["number"] for found in ledger().lost_before] == [1]


def test_three_losses_in_a_row_of_this_process_are_trouble(ledger):
    first = ledger()
    first.add(record(0, "lost"))
    first.settle([], 1, 1.0)
    first.add(record(1, "lost"))
    assert not first.in_trouble()
    first.add(record(2, "lost"))
    assert first.in_trouble()
    assert not ledger().in_trouble()


def test_two_campaigns_do_not_share_a_folder(tmp_path):
    with only_one(tmp_path), pytest.raises(OtherCampaign, match="is running"), only_one(tmp_path):
        pass
    with only_one(tmp_path):
        pass
