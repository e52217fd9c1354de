"""The truths of the offline example, counted out."""

import os
import subprocess
import sys
from pathlib import Path

from eval.infer import QUESTIONS

ROOT = Path(__file__).parents[2]


def test_the_truths_are_true():
    square = 2024**2
    counted = (
        sum(square % d == 0 for d in range(2024, square + 1, 2024)),
        pow(7, 2024, 1000),
        sum(12 * a % (a - 12) == 0 for a in range(13, 12 * 13 + 1)),  # b = 12a / (a - 12)
    )
    assert tuple(truth for _, truth in QUESTIONS) == tuple(map(str, counted))


def test_it_runs_as_a_file_from_anywhere(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, ROOT / "eval/infer.py", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "--tensor_parallel_size" in done.stdout
