"""A published recipe's dress rehearsal, from the launch script to its report."""

import json
import os
import subprocess

from tests.e2e.conftest import ROOT, metrics


def test_rehearsal_of_the_full_32b_run(tmp_path):
    done = subprocess.run(
        ["bash", "scripts/run_dapo_qwen2.5_32b.sh", "cluster=rehearsal"],
        cwd=ROOT,
        env={**os.environ, "OUTPUT_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1100,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    run_dir = tmp_path / "rehearsal-qwen2.5_32b-dapo-seed1"
    report = json.loads((run_dir / "rehearsal.json").read_text())
    assert report["unexpected"] == {}
    assert set(report["seconds"]) == {"data", "model", "train", "resume", "export", "evaluate"}
    assert sorted({step for step, _ in metrics(run_dir)} - {0}) == [1, 2, 3]  # 0: validation before training
    assert json.loads((run_dir / "model" / "config.json").read_text())["model_type"] == "qwen2"
    assert json.loads((run_dir / "eval" / "after.summary.json").read_text())
