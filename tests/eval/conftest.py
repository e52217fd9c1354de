"""A small test file in the published layout, the command line in process, and a running stub server."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eval.command import main
from tests.eval.stub import Running, Stub


@pytest.fixture
def make_parquet(tmp_path):
    """Write problems `0, 1, ...`, each `repeats` times and shuffled as in the published AIME file; gold is 34."""

    def make(problems, repeats=1, name="test.parquet", gold=lambda _: "34"):
        rows = [
            {
                "data_source": "math_dapo",
                "prompt": [{"role": "user", "content": f"Problem number {i}?"}],
                "reward_model": {"ground_truth": gold(i), "style": "rule"},
            }
            for i in range(problems)
            for _ in range(repeats)
        ]
        random.Random(1).shuffle(rows)
        path = tmp_path / name
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path

    return make


@pytest.fixture
def serve():
    """Start stubs; they end with the test."""
    running = []

    def start(stub=None):
        running.append(Running(stub or Stub()).__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


@pytest.fixture
def evaluate(monkeypatch, tmp_path):
    """Run `eval_aime24` in this process, grading in threads (processes take a second to start); returns its status."""
    monkeypatch.setattr("eval.command.worker_pool", lambda: ThreadPoolExecutor(2))
    monkeypatch.setattr("eval.grading.worker_pool", lambda workers: ThreadPoolExecutor(2))
    monkeypatch.setattr("eval.client._LONGEST_PAUSE_S", 0.01)

    def run(*arguments, out="out.jsonl"):
        return main([*map(str, arguments), "--out", str(tmp_path / out)])

    return run


@pytest.fixture
def read(tmp_path):
    """Lines of a samples file, in its order."""
    return lambda name="out.jsonl": [json.loads(line) for line in (tmp_path / name).open()]


@pytest.fixture
def summary(tmp_path):
    """Content of a summary."""
    return lambda name="out.summary.json": json.loads((tmp_path / name).read_text())
