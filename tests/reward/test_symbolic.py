"""Worker processes: limits, restarts, threads, forks, daemonic parents, no orphans."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reward import symbolic
from reward.grade import grade
from reward.symbolic import Mathematics, Pool, too_complex

# Takes sympy far longer than the limits below; found by no screen.
SLOW = r"\int_{0}^{1}\int_{0}^{1}\sin(x^{5}y^{3}+e^{xy})\cos(x^{y}+y^{x}) dx dy"


@pytest.fixture
def pool(monkeypatch):
    fresh = Pool(size=1)
    monkeypatch.setattr(symbolic, "_pool", fresh)
    yield fresh
    fresh.close()


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_gone(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not gone(pid):
        time.sleep(0.1)
    return gone(pid)


def test_a_late_worker_is_killed_and_replaced(pool):
    assert pool.compare("equal", "x", "x+1", 5.0)[0] is False
    (first,) = pool.pids()
    begin = time.monotonic()
    equal, _, note = pool.compare("equal", SLOW, r"\sqrt{7}+\frac{1}{3}", 0.5)
    assert (equal, note) == (False, "timeout")
    assert time.monotonic() - begin < 60  # 0.5 s on an idle machine; without the kill, minutes
    assert gone(first)  # killed and reaped by the call itself, before the worker's own alarm
    assert pool.compare("equal", r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", 60.0)[0] is True
    assert pool.pids() != [first]
    assert pool.counts["timeout"] == 1


def test_a_timeout_is_no_plain_difference(pool):
    verdict = grade(f"Answer: ${SLOW}$", r"\sqrt{7}+\frac{1}{3}", limit_s=0.5)
    assert not verdict.correct
    assert verdict.reason == "symbolic_timeout"


def test_a_dead_worker_is_replaced(pool):
    pool.compare("equal", "x", "x+1", 5.0)
    (pid,) = pool.pids()
    os.kill(pid, signal.SIGKILL)
    assert wait_gone(pid, 5)
    assert pool.compare("equal", "x", "y", 5.0)[2] == "died"
    assert pool.compare("equal", "x+x", "2x", 60.0)[0] is True


def test_the_first_start_of_a_worker_is_charged_to_nobody(pool):
    begin = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(pool.compare, "equal", f"x+{number}", f"{number}+x", 60.0) for number in (1, 2)]
        answers = [one.result() for one in asked]
    assert [(equal, note) for equal, _, note in answers] == [(True, "")] * 2
    assert sum(used for _, used, _ in answers) < (time.monotonic() - begin) / 2  # the rest is one start


def test_the_limit_is_for_the_whole_call():
    mathematics = Mathematics(limit=0.0)
    assert mathematics("equal", "x", "x+0") is False
    assert mathematics.notes == ["timeout"]


def test_whole_number_golds_start_no_worker(pool):
    assert not grade("Answer: \\sqrt{2}+x", "34").correct
    assert pool.pids() == []


@pytest.mark.parametrize(
    "text", ["x" * 1000, "2^{2^{2^{2^{9}}}}", "(" * 30 + "x" + ")" * 30, "99999!", "9^99999", "a\x00b"]
)
def test_screen(text):
    assert too_complex(text)


@pytest.mark.parametrize(
    "text", [r"\frac{2^{2005}+1}{3 \cdot 2^{2006}}", "10^{-\\frac{5+\\sqrt{13}}{6}}", "e^{x^{2}}", "100!"]
)
def test_screen_lets_ordinary_answers_pass(text):
    assert not too_complex(text)


SCRIPT = """
import os, sys, time
from reward import symbolic
symbolic.pool().compare("equal", "x", "x+1", 60.0)
print(*symbolic.pool().pids(), flush=True)
{then}
"""


def start(then: str) -> tuple[subprocess.Popen, int]:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(then=then)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_no_worker_outlives_a_killed_parent():
    process, worker = start("time.sleep(600)")
    assert not gone(worker)
    process.kill()
    process.wait()
    assert wait_gone(worker, 10)


def test_no_busy_worker_outlives_a_killed_parent():
    process, worker = start(f"symbolic.pool().compare('equal', {SLOW!r}, 'x', 600.0)")
    time.sleep(1)
    process.kill()
    process.wait()
    assert wait_gone(worker, 10)


def test_workers_end_with_their_process():
    process, worker = start("sys.exit(0)")
    process.wait()
    assert wait_gone(worker, 5)


def _grade_in_child(queue):
    queue.put(grade("Answer: $x+x$", "2x").correct)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_daemonic_processes_may_grade(method):
    """A daemonic process may have no multiprocessing children; ours are plain subprocesses. A fork gets its own."""
    assert grade("Answer: $y+y$", "2y").correct
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_grade_in_child, args=(queue,), daemon=True)
    child.start()
    assert queue.get(timeout=90) is True
    child.join(30)
    assert grade("Answer: $z+z$", "2z").correct
