"""The laptop loop, start to end, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time

from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.e2e.conftest import ROOT, metrics, mine, run_module


def arguments(base, run_dir, steps):
    return [
        "experiment=tiny",
        f"run_dir={run_dir}",
        "loop.base_model=null",
        f"actor_rollout_ref.model.path={base}/base_model",
        f"trainer.total_training_steps={steps}",
        "trainer.save_freq=1",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
    ]


def test_interrupted_loop_leaves_nothing_and_the_same_command_ends_it(base, tmp_path):
    command = [sys.executable, "-m", "recipe.loop", *arguments(base, tmp_path, 2)]
    loop = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 600
    while not metrics(tmp_path) and time.monotonic() < deadline and loop.poll() is None:
        time.sleep(0.5)
    os.kill(loop.pid, signal.SIGINT)
    output, _ = loop.communicate(timeout=60)
    assert "goes on from here" in output
    assert mine(str(tmp_path)) == []

    done = run_module("recipe.loop", *arguments(base, tmp_path, 2))
    assert "done before" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["steps"] == 2
    for name in ("accuracy_before", "accuracy_after"):
        assert summary[name]["problems"] == 128
        assert summary[name]["samples"] == 4
        assert 0.0 < summary[name]["low"] <= summary[name]["mean"] <= summary[name]["high"] <= 1.0
    assert 0.5 < summary["peak_memory_gb"] < 12
    assert {"data", "evaluate_before", "train", "export", "evaluate_after"} == set(summary["phases_s"])
    assert sorted({step for step, _ in metrics(tmp_path)}) == [1, 2]

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    assert tokenizer.eos_token == "<|im_end|>"
    assert mine(str(tmp_path)) == []
