"""The truths of the offline example, counted out."""

import os
import subprocess
import sys
import types
from pathlib import Path

from eval import infer
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


def test_an_answer_cannot_write_to_the_terminal_and_is_not_cut(monkeypatch, capsys):
    """Loading a model takes too long here: the engine is a stub, what is printed is ours."""
    text = "Step 1\n\x1b[2JStep 2" + "." * 30_000
    answers = [types.SimpleNamespace(outputs=[types.SimpleNamespace(text=text)]) for _ in QUESTIONS]
    platform = types.SimpleNamespace(is_cpu=lambda: True)
    monkeypatch.setitem(sys.modules, "vllm", types.SimpleNamespace(SamplingParams=dict))
    monkeypatch.setitem(sys.modules, "vllm.platforms", types.SimpleNamespace(current_platform=platform))
    engine = types.SimpleNamespace(chat=lambda chats, sampling: answers)
    monkeypatch.setattr(infer, "load_engine", lambda *_: engine)
    infer.main([])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.count("Output: Step 1\n\u241b[2JStep 2" + "." * 30_000 + "\n") == len(QUESTIONS)
