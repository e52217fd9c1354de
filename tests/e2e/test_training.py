"""The real stack on CPU: Ray, verl's V1 trainer, FSDP2, vLLM rollouts."""

import psutil
import torch

from tests.e2e.conftest import metrics, run_module


def overrides(base, run_dir, *more):
    return [
        "experiment=tiny",
        "technique=dapo",
        "cluster=cpu",
        f"run_dir={run_dir}",
        f"actor_rollout_ref.model.path={base}/base_model",
        f"data.train_files={base}/data/train.parquet",
        f"data.val_files={base}/data/test.parquet",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        *more,
    ]


def optimizer_steps(checkpoint, world_size=1, rank=0):
    path = checkpoint / "actor" / f"optim_world_size_{world_size}_rank_{rank}.pt"
    state = torch.load(path, weights_only=False)["state"]
    return {int(entry["step"]) for entry in state.values()}


def ray_processes():
    return [p.pid for p in psutil.process_iter(["cmdline"]) if "raylet" in " ".join(p.info["cmdline"] or [])[:300]]


def test_resume_continues_at_the_right_step_with_the_optimizer(base, tmp_path):
    before = set(ray_processes())
    run_module("recipe.main_dapo", *overrides(base, tmp_path, "trainer.total_training_steps=1", "trainer.save_freq=1"))
    run_module("recipe.main_dapo", *overrides(base, tmp_path, "trainer.total_training_steps=2", "trainer.save_freq=1"))

    logged = metrics(tmp_path)
    assert [step for step, _ in logged] == [1, 2]
    for _, data in logged:
        assert data["sampling/trained_groups"] == 32
        assert 0.0 < data["sampling/acc/after_filter"] < 1.0
        assert data["training/rollout_probs_diff_mean"] < 0.01
    # 32 groups in mini-batches of 8 are 4 updates a step; a fresh optimizer after the resume would say 4 again.
    assert optimizer_steps(tmp_path / "checkpoints" / "global_step_1") == {4}
    assert optimizer_steps(tmp_path / "checkpoints" / "global_step_2") == {8}
    assert set(ray_processes()) <= before


def test_two_logical_devices(base, tmp_path):
    changed = ["trainer.n_gpus_per_node=2", "trainer.total_training_steps=1", "trainer.save_freq=1"]
    run_module("recipe.main_dapo", *overrides(base, tmp_path, *changed))
    (step, data), *rest = metrics(tmp_path)
    assert (step, rest) == (1, [])
    assert data["sampling/trained_groups"] == 32
    checkpoint = tmp_path / "checkpoints" / "global_step_1"
    for rank in (0, 1):
        assert optimizer_steps(checkpoint, world_size=2, rank=rank) == {4}
