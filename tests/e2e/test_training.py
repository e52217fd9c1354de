"""The real stack on CPU: Ray, verl's V1 trainer, FSDP2, vLLM rollouts."""

import contextlib
import subprocess
import sys
import time

import psutil
import pytest

from recipe.leftovers import remove_segments, segments
from tests.e2e.conftest import (
    ROOT,
    dumped,
    left_over,
    metrics,
    mine,
    optimizer_steps,
    prompts_in_order,
    run_module,
    trace,
)

SAMPLER = "trainer.v1.sampler.sampler_kwargs"


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


def ray_processes():
    return [p.pid for p in psutil.process_iter(["cmdline"]) if "raylet" in " ".join(p.info["cmdline"] or [])[:300]]


def kill_after_first_checkpoint(command, run_dir):
    """SIGKILL everything of a run once it has saved and logged a step, as a power cut would; the step saved last."""
    began, before = time.monotonic(), segments()
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tracker = run_dir / "checkpoints" / "latest_checkpointed_iteration.txt"
    while run.poll() is None and not (tracker.is_file() and metrics(run_dir)) and time.monotonic() - began < 900:
        time.sleep(0.2)
    while found := mine(str(run_dir)):
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        run.poll()
    output, _ = run.communicate()
    assert tracker.is_file(), output[-3000:]
    remove_segments(before)
    return int(tracker.read_text())


def restarts_are_cheap_and_honest(command, base, last):
    """Nothing starts for a run that is done, nor for one that would silently be another."""
    done = run_module("recipe.main_dapo", *command)
    assert f"global_step_{last} holds all {last} steps: nothing left to train" in done.stdout
    other_rate = run_module("recipe.main_dapo", *command, "actor_rollout_ref.actor.optim.lr=1e-3", check=False)
    assert other_rate.returncode == 2
    assert "actor_rollout_ref.actor.optim.lr: 0.0002 -> 0.001" in other_rate.stderr
    other_data = f"data.train_files={base}/data/test.parquet"
    changed = run_module("recipe.main_dapo", *command, other_data, "allow_changed_resume=true", check=False)
    assert changed.returncode == 2
    assert "would skip or repeat data: data.train_files: train.parquet" in changed.stderr


def test_killed_run_resumes_with_its_carried_groups_its_optimizer_and_the_next_prompts(base, tmp_path):
    before = set(ray_processes())
    changed = ["trainer.save_freq=1", "actor_rollout_ref.rollout.n=2", f"{SAMPLER}.surplus=carry_over"]
    changed.append(f"{SAMPLER}.hedge=4")  # groups of 2 are kept half of the time; insured so well, some are left over
    changed.append("actor_rollout_ref.actor.use_kl_loss=true")  # with a reference policy, which DAPO itself has not
    endless = overrides(base, tmp_path, *changed, "trainer.total_training_steps=50")
    last = kill_after_first_checkpoint([sys.executable, "-m", "recipe.main_dapo", *endless], tmp_path)
    ended = overrides(base, tmp_path, *changed, f"trainer.total_training_steps={last + 1}")
    run_module("recipe.main_dapo", *ended)
    restarts_are_cheap_and_honest(ended, base, last + 1)

    logged = dict(metrics(tmp_path))
    for step in (1, last + 1):
        assert logged[step]["sampling/trained_groups"] == 32
        assert 0.0 < logged[step]["sampling/acc/after_filter"] < 1.0
        assert logged[step]["training/rollout_probs_diff_mean"] < 1e-4  # bfloat16 on one side makes it 0.002
        assert logged[step]["training/gradient_step"] == 4 * step
    assert 0 < logged[1]["actor/kl_loss"] < logged[last + 1]["actor/kl_loss"]  # the reference stays the base model
    # 32 groups in mini-batches of 8 are 4 updates a step; a fresh optimizer after the resume would say 4 again.
    kept = {p.name for p in (tmp_path / "checkpoints").glob("global_step_*")}
    assert kept == {f"global_step_{step}" for step in (last, last + 1)}  # also what the killed process had left
    assert len(list((tmp_path / "attempts").iterdir())) == 2  # a start that trains nothing leaves no stamp
    for step in (last, last + 1):
        assert optimizer_steps(tmp_path / "checkpoints" / f"global_step_{step}") == {4 * step}
    assert set(ray_processes()) <= before

    killed, resumed = trace(tmp_path, last), trace(tmp_path, last + 1)
    left = left_over(killed)
    assert left, "the test needs surplus groups"
    assert [(g["uid"], g["prompt"], g["acc"]) for g in resumed if g["carried"]] == left
    assert {uid for uid, _, _ in left} <= {key.split("_")[0] for key in dumped(tmp_path, last + 1)}
    assert logged[last + 1]["sampling/carried_share"] == len(left) / 32
    sent = [g["prompt"] for step in range(1, last + 2) for g in trace(tmp_path, step) if not g["carried"]]
    assert sent == prompts_in_order(base / "data" / "train.parquet", seed=1)[: len(sent)]


def test_two_devices_give_up_a_prompt_that_never_ends_and_leave_truncated_answers_out(base, tmp_path):
    """FSDP2 over gloo and two rollout replicas, on partial batches, with the loss over live sequences of both ranks.

    One prompt keeps a real engine busy until the step is over, and delivers then (tests/e2e/stuck_loop.py).
    """
    loops = tmp_path / "agent_loops.yaml"
    loops.write_text("- name: stuck_once\n  _target_: tests.e2e.stuck_loop.StuckOnce\n")
    changed = [
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loops}",
        "actor_rollout_ref.rollout.agent.default_agent_loop=stuck_once",
        "actor_rollout_ref.rollout.n=2",
        "data.train_batch_size=16",
        "trainer.n_gpus_per_node=2",
        "trainer.total_training_steps=3",
        "trainer.save_freq=3",
        # The base model never ends about one answer in six.
        "overlong_filtering.enable=true",
        "reward.reward_kwargs.overlong_buffer_cfg.enable=false",
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean",
        "recipe.technique=filtering",
        f"{SAMPLER}.bounds.give_up_after_s=45",
        f"{SAMPLER}.bounds.max_generated=20",  # half of the groups of 2 are kept: no batch fills up
        f"{SAMPLER}.bounds.on_exhausted=train_partial",
    ]
    run_module("recipe.main_dapo", *overrides(base, tmp_path, *changed))

    stuck, aborted = (tmp_path / "stuck").read_text(), int((tmp_path / "delivered").read_text())
    assert aborted > 0, "the engine went on generating for a prompt that was given up"
    (given_up,) = [g for g in trace(tmp_path, 1) if g["uid"] == stuck]
    assert given_up["reason"] == "given_up"
    assert 45 <= given_up["decided_at"] - given_up["dispatched_at"] < 300
    steps, cut = 0, []
    for step, data in metrics(tmp_path):
        groups, keys = trace(tmp_path, step), dumped(tmp_path, step)
        trained = [g["uid"] for g in groups if g["trained"]]
        assert 0 < len(trained) == data["sampling/trained_groups"] <= 16
        assert stuck not in trained
        assert len(groups) <= 20
        # verl pads to mini-batches of 8 groups; the padding is in no dump, no metric and no mean
        assert sorted(keys) == sorted(f"{uid}_{i}_0" for uid in trained for i in range(2))
        steps += -(-len(trained) // 8)
        assert data["training/gradient_step"] == steps
        lengths = [length for g in groups if g["trained"] for length in g["lengths"]]
        assert data["response_length/min"] == min(lengths)
        assert data["response_length/mean"] == pytest.approx(sum(lengths) / len(lengths))
        generated = [c for g in groups for c in g["truncated"]]
        if step > 1:  # before, an answer of the prompt that was given up counts too, which the trace does not have
            assert data["sampling/masked_share"] == pytest.approx(sum(generated) / len(generated))
        cut += generated
    assert [step for step, _ in metrics(tmp_path)] == [1, 2, 3]
    assert all(g["uid"] != stuck for step in (2, 3) for g in trace(tmp_path, step))
    assert 0.02 < sum(cut) / len(cut) < 0.9
    for rank in (0, 1):
        assert optimizer_steps(tmp_path / "checkpoints" / "global_step_3", world_size=2, rank=rank) == {steps}
