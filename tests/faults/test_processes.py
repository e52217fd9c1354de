"""A start is known with all its processes, and none of them outlives it."""

import sys
import time

import pytest

from recipe.leftovers import runs
from tests.faults.processes import Start, kill_all, marked

_FORKS = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
parent = f"import subprocess, time; subprocess.Popen({sleep!r}, env={{}}); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", parent], start_new_session=True, env={})
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@pytest.fixture
def start(tmp_path):
    """A start whose child and grandchild have nothing of it in their environments."""

    def begin():
        (tmp_path / "forks.py").write_text(_FORKS)
        started = Start(
            "forks", [str(tmp_path / "end")], tmp_path / "log", {"PYTHONPATH": str(tmp_path)}, "faults-test"
        )
        started.wait(20, lambda: len(started.alive()) == 3)
        begun.append(started)
        return started

    begun: list[Start] = []
    yield begin
    for started in begun:
        started.kill()


def test_what_a_start_leaves_running_is_named_and_ended(start, tmp_path):
    started = start()
    parent = next(p for p in started.alive() if p.ppid() == started.child.pid)
    assert len(parent.children()) == 1
    parent.kill()
    (tmp_path / "end").touch()
    started.wait(20)
    assert started.child.poll() == 0
    (left,) = started.orphans(0.1)
    assert left.startswith(f"{sys.executable} -c import time")
    assert started.alive() == []


def test_a_later_campaign_finds_what_one_that_was_killed_has_left(start):
    processes = start().alive()
    assert len(processes) == 3
    kill_all(lambda: marked("faults-test"))
    deadline = time.monotonic() + 20
    while any(map(runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(runs, processes))
