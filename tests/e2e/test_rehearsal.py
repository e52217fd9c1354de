"""A published recipe's dress rehearsal, from the launch script to its report; with REHEARSE=all three others too."""

import json
import os
import subprocess

import pytest

from tests.e2e.conftest import ROOT, metrics

more = pytest.mark.skipif(os.environ.get("REHEARSE") != "all", reason="minutes each: asked for with REHEARSE=all")


@pytest.mark.parametrize(
    ("script", "run", "architecture"),
    [
        ("dapo_qwen2.5_32b", "qwen2.5_32b-dapo", "qwen2"),
        pytest.param("dapo_qwen2.5_7b_math", "qwen2.5_7b_math-wo_dynamic_sampling", "qwen2", marks=more),
        pytest.param("dapo_qwen3.5_4b", "qwen3.5_4b-dapo", "qwen2", marks=more),  # a stand-in: recipe.rehearsal.ON_CPU
        pytest.param("dapo_qwen3_4b_single_node", "qwen3_4b_single_node-dapo", "qwen3", marks=more),
    ],
)
def test_rehearsal_of_a_recipe(script, run, architecture, tmp_path):
    done = subprocess.run(
        ["bash", f"scripts/run_{script}.sh", "cluster=rehearsal"],
        cwd=ROOT,
        env={**os.environ, "OUTPUT_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1100,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    run_dir = tmp_path / f"rehearsal-{run}-seed1"
    report = json.loads((run_dir / "rehearsal.json").read_text())
    assert report["unexpected"] == {}
    assert set(report["seconds"]) == {"data", "model", "train", "resume", "export", "evaluate"}
    assert sorted({step for step, _ in metrics(run_dir)} - {0}) == [1, 2, 3]  # 0: validation before training
    assert json.loads((run_dir / "model" / "config.json").read_text())["model_type"] == architecture
    assert json.loads((run_dir / "eval" / "after.summary.json").read_text())
