"""Dress rehearsals of published recipes, from the launch script to the report: minutes each, so asked for.

REHEARSE=all runs every one, REHEARSE=dapo_qwen2.5_32b (a script's name without `run_`) one.
"""

import json
import os
import subprocess

import pytest

from tests.e2e.conftest import ROOT, metrics

ASKED = os.environ.get("REHEARSE", "")


@pytest.mark.parametrize(
    ("script", "run", "architecture"),
    [
        ("dapo_qwen2.5_32b", "qwen2.5_32b-dapo", "qwen2"),
        ("dapo_early_qwen2.5_32b", "qwen2.5_32b-early", "qwen2"),
        ("dapo_wo_ds_qwen2.5_32b", "qwen2.5_32b-wo_dynamic_sampling", "qwen2"),
        ("dapo_qwen2.5_7b_math", "qwen2.5_7b_math-wo_dynamic_sampling", "qwen2"),
        ("dapo_qwen3.5_4b", "qwen3.5_4b-dapo", "qwen2"),  # a stand-in: recipe.rehearsal.ON_CPU
        ("dapo_qwen3_4b_single_node", "qwen3_4b_single_node-dapo", "qwen3"),
    ],
)
def test_rehearsal_of_a_recipe(script, run, architecture, tmp_path):
    if ASKED not in ("all", script):
        pytest.skip(f"minutes on the real stack: asked for with REHEARSE={script}, or REHEARSE=all")
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
