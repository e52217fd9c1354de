"""The order of a campaign's work, with the starts of the real stack left out."""

import contextlib
import json

import pytest

from tests.faults.campaign import Campaign, Progress, Stopped
from tests.faults.ledger import Ledger
from tests.faults.plan import plan

FAULTS = plan(22, 1)
PLAN = {"count": 22, "seed": 1, "kinds": ""}


class Short(Campaign):
    """Every live fault's start trains and settles what was before it; `interrupt` is the number of one that is cut."""

    interrupt = -1
    trains = True
    loses: frozenset = frozenset()

    def _hit(self, fault):
        if fault.number == self.interrupt:
            raise KeyboardInterrupt
        if self.trains and fault.steps:
            self._settle([], 1, 1.0)
        return self._damage(fault) | {"problems": ["lost"] * (fault.number in self.loses)}

    def _damage(self, fault):
        return {"number": fault.number, "kind": fault.kind, "fault": str(fault), "problems": [], "last_line": ""}

    @contextlib.contextmanager
    def _started(self, module, **how):
        start = type("Start", (), {"wait": lambda *_: None, "orphans": lambda *_: [], "log": "x.log"})()
        start.child = type("Child", (), {"poll": lambda _: 0})()
        yield start, None
        if self.trains:
            self._settle([], 1, 1.0)


@pytest.fixture
def campaign(tmp_path):
    return lambda: Short(tmp_path, FAULTS, Ledger(tmp_path / "faults.json", PLAN))


def test_every_fault_is_counted_over_many_invocations(campaign):
    first = campaign()
    first.interrupt = next(fault.number for fault in FAULTS[5:] if fault.live)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert campaign().run(minutes=0)["left"] == 22 - first.interrupt
    result = campaign().run()
    assert (result["faults"], result["left"], result["not_judged"]) == (22, 0, 0)
    assert campaign().run()["faults"] == 22


def test_faults_that_no_start_has_overcome_are_losses(campaign):
    last = campaign()
    last.trains = False
    result = last.run()
    assert (result["faults"], result["losses"], result["not_judged"]) == (22, 22, 0)
    assert "trained nothing" in last.ledger.records[0]["problems"][-1]


def test_a_campaign_that_loses_everything_stops(campaign):
    losing = campaign()
    losing.loses = frozenset(range(22))
    losing.faults = [fault for fault in FAULTS if fault.live]
    with pytest.raises(Stopped, match="lost"):
        losing.run()
    assert len(losing.ledger.done) == 3


def test_the_time_of_the_first_step_is_that_of_the_log(tmp_path):
    start = type("Start", (), {"began": 0.0})()
    progress = Progress(tmp_path, [], start)
    assert (progress.steps(), progress.first_step_s) == (0, None)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "000.jsonl").write_text(json.dumps({"step": 1, "data": {}}) + "\n")
    assert progress.steps() == 1
    assert progress.first_step_s is not None
    assert progress.first_step_s > 0
