"""The laptop loop, start to end, and what it leaves behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import psutil
from transformers import AutoModelForCausalLM, AutoTokenizer

from recipe.loopback import is_loopback
from tests.e2e.conftest import ROOT, metrics, mine, run_module
from tests.faults.processes import command_line

STEPS = 6  # long enough to be interrupted after the first


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
        "trainer.logger=[console,wandb,tensorboard]",  # and file, which is always on
    ]


def family(loop, marker):
    """The loop's living processes: its descendants, and what else names the run; Ray's own do not all name it."""
    found = [*psutil.Process(loop.pid).children(recursive=True), *mine(marker)]
    return list({process.pid: process for process in found}.values())


def sockets(processes):
    """Kinds of the processes that could be looked at, and the addresses beyond loopback at which one listens."""
    kinds, beyond = set(), []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            name, line, found = process.name(), command_line(process), process.net_connections(kind="inet")
            kinds.add(next((title for title in ("ray::", "VLLM::") if line.startswith(title)), name))
            listening = [socket.laddr for socket in found if socket.status == psutil.CONN_LISTEN]
            beyond += [(name, address.ip, address.port) for address in listening if not is_loopback(address.ip)]
    return kinds, beyond


def test_interrupted_loop_leaves_nothing_and_the_same_command_ends_it(base, tmp_path):
    command = [sys.executable, "-m", "recipe.loop", *arguments(base, tmp_path, STEPS)]
    loop = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 600
    while not metrics(tmp_path) and time.monotonic() < deadline and loop.poll() is None:
        time.sleep(0.5)
    kinds, beyond = sockets(family(loop, str(tmp_path)))
    assert {"raylet", "gcs_server", "ray::", "VLLM::"} <= kinds
    assert beyond == []
    os.kill(loop.pid, signal.SIGINT)
    output, _ = loop.communicate(timeout=60)
    assert "goes on from here" in output
    assert mine(str(tmp_path)) == []

    done = run_module("recipe.loop", *arguments(base, tmp_path, STEPS))
    assert "done before" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["steps"] == STEPS
    assert len(list((tmp_path / "attempts").iterdir())) == 2  # the interruption came while training
    assert list(tmp_path.glob("wandb/offline-run-*"))
    assert list(tmp_path.glob("tensorboard/events.out.tfevents.*"))
    assert [path.name for path in sorted((tmp_path / "examples").iterdir())] == [f"{i + 1}.jsonl" for i in range(STEPS)]
    page = tmp_path / "report" / "index.html"
    assert f"report: {page}" in done.stdout.splitlines()[-1]
    assert summary["report"] == str(page)
    assert {kind for kind in ("right", "wrong") if f'class="response {kind}"' in page.read_text()} == {"right", "wrong"}
    for name in ("accuracy_before", "accuracy_after"):
        assert summary[name]["problems"] == 128
        assert summary[name]["samples"] == 4
        assert 0.0 < summary[name]["low"] <= summary[name]["mean"] <= summary[name]["high"] <= 1.0
    assert 0.5 < summary["peak_memory_gb"] < 12
    assert {"data", "evaluate_before", "train", "export", "evaluate_after", "report"} == set(summary["phases_s"])
    assert sorted({step for step, _ in metrics(tmp_path)}) == [i + 1 for i in range(STEPS)]

    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert model.config.architectures == ["Qwen2ForCausalLM"]
    assert tokenizer.eos_token == "<|im_end|>"
    assert mine(str(tmp_path)) == []
