"""The evaluation client killed, and its server killed, at random moments: the file ends as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.conftest import ROOT
from tests.e2e.test_loop import mine
from tests.eval.stub import free_port, start_process

PROBLEMS, N = 16, 24


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def start_stub(port):
    """Start the deterministic stub (the text of an answer depends on messages and seed) as a process of its own."""
    running = []

    def start():
        running.append(start_process(port, mean_latency_s=0.15))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def start_client(tmp_path, port):
    rows = [
        {"prompt": [{"role": "user", "content": f"Problem {i}?"}], "reward_model": {"ground_truth": "34"}}
        for i in range(PROBLEMS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "test.parquet")

    def start(name, *more):
        command = [sys.executable, "eval/eval_aime24.py", "--test_file", tmp_path / "test.parquet", "--n", N]
        command += ["--base_url", f"http://127.0.0.1:{port}/v1", "--concurrency", 8, "--out", tmp_path / name, *more]
        return subprocess.Popen([str(c) for c in command], cwd=ROOT, stderr=subprocess.PIPE, text=True)

    return start


def samples(path):
    """Text and verdict of every (problem, sample) of a file; a key that stands twice is an error."""
    found = {}
    for line in map(json.loads, path.open()):
        key = (line["problem"], line["sample"])
        assert key not in found
        found[key] = (line["text"], line["correct"], line["pred"])
    return found


def wait_for_lines(path, lines, client):
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert client.poll() is None
        time.sleep(0.005)


def test_five_kills_at_random_moments_change_nothing(start_stub, start_client, tmp_path):
    start_stub()
    whole = start_client("whole.jsonl")
    assert whole.wait(120) == 0, whole.stderr.read()
    expected = samples(tmp_path / "whole.jsonl")
    assert sorted(expected) == [(p, s) for p in range(PROBLEMS) for s in range(N)]

    out, rng = tmp_path / "killed.jsonl", random.Random(1)
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
        before = out.read_bytes().count(b"\n") if out.exists() else 0
        client = start_client("killed.jsonl")
        wait_for_lines(out, before + 1, client)
        time.sleep(rng.uniform(0.0, 0.4))
        os.kill(client.pid, number)
        status = client.wait(30)
        assert status == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    deadline = time.monotonic() + 10
    while mine(str(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [p for p in mine(str(tmp_path)) if p.pid != os.getpid()]
    assert 5 <= len(out.read_bytes().splitlines()) < PROBLEMS * N

    client = start_client("killed.jsonl")
    assert client.wait(120) == 0, client.stderr.read()
    assert samples(out) == expected
    ours, theirs = (json.loads((tmp_path / f"{name}.summary.json").read_text()) for name in ("killed", "whole"))
    assert ours == theirs


def test_server_killed_and_started_again(start_stub, start_client, tmp_path):
    first = start_stub()
    out = tmp_path / "a.jsonl"
    client = start_client("a.jsonl", "--retries", 8)
    wait_for_lines(out, 40, client)
    first.kill()
    first.wait()
    start_stub()
    assert client.wait(120) == 0, client.stderr.read()  # retries outlast a short absence
    expected = samples(out)
    assert len(expected) == PROBLEMS * N


def test_server_that_stays_away_leaves_listed_missing_samples(start_stub, start_client, tmp_path):
    first = start_stub()
    out = tmp_path / "a.jsonl"
    client = start_client("a.jsonl", "--retries", 1)
    wait_for_lines(out, 40, client)
    first.kill()
    first.wait()
    assert client.wait(60) == 1
    answered = len(samples(out))
    summary = json.loads((tmp_path / "a.summary.json").read_text())
    assert len(summary["missing_samples"]) == PROBLEMS * N - answered
    assert "mean" not in summary

    start_stub()
    client = start_client("a.jsonl")
    assert client.wait(60) == 0, client.stderr.read()
    assert len(samples(out)) == PROBLEMS * N


def test_grading_processes_end_with_a_killed_client(start_stub, start_client, tmp_path):
    start_stub()
    client = start_client("a.jsonl")
    wait_for_lines(tmp_path / "a.jsonl", 1, client)
    children = psutil.Process(client.pid).children(recursive=True)
    assert children
    client.kill()
    client.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
