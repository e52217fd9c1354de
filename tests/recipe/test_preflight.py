from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recipe import preflight
from recipe.compose import compose
from recipe.preflight import check_inputs, check_loop, check_machine, check_model, check_recipe

WRONG = {
    "mini batch of nothing": (["actor_rollout_ref.actor.ppo_mini_batch_size=0"], "ppo_mini_batch_size=0 must be"),
    "no devices": (["trainer.n_gpus_per_node=0"], "n_gpus_per_node=0 must be"),
    "batch that is a word": (["data.train_batch_size=abc"], "train_batch_size=abc must be"),
    "no steps": (["trainer.total_training_steps=0"], "total_training_steps=0 must be"),
    "seed that is a word": (["seed=x"], "seed=x must be"),
    "unknown surplus": (["trainer.v1.sampler.sampler_kwargs.surplus=x"], "surplus='x' is unknown"),
    "unknown exhaustion": (["trainer.v1.sampler.sampler_kwargs.bounds.on_exhausted=bla"], "on_exhausted='bla'"),
    "no bound": (["trainer.v1.sampler.sampler_kwargs.bounds.max_passes=null"], "may never end"),
    "unknown reward mode": (["reward.reward_kwargs.mode=zzz"], "zzz"),
    "unknown answer format": (["answer_format=zzz"], "zzz"),
    "mini batch that does not divide": (["data.train_batch_size=30"], "must divide data.train_batch_size=30"),
    "mini batch above the batch": (
        ["data.train_batch_size=16", "actor_rollout_ref.actor.ppo_mini_batch_size=128"],
        "128",
    ),
    "ranks that cannot share": (
        ["trainer.n_gpus_per_node=32", "actor_rollout_ref.actor.ppo_mini_batch_size=2"],
        "multiple of 4",
    ),
    "one sample": (["actor_rollout_ref.rollout.n=1"], "at least 2 samples"),
    "short window": (["actor_rollout_ref.rollout.max_model_len=40"], "max_model_len=40"),
    "buffer above the limit": (["reward.reward_kwargs.overlong_buffer_cfg.len=64"], "overlong_buffer_cfg.len=64"),
    "top_p in training": (["actor_rollout_ref.rollout.top_p=0.7"], "top_p=0.7 biases"),
    "temperature": (["actor_rollout_ref.rollout.temperature=0.6"], "temperature=0.6 biases"),
    "shaped filter metric": (["algorithm.filter_groups.metric=reward"], "contains the overlong penalty"),
    "old trainer": (["trainer.use_v1=false"], "ignores the group filter"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_recipe_gets_its_message(name):
    overrides, message = WRONG[name]
    assert any(message in problem for problem in check_recipe(compose(overrides)))


def test_all_problems_are_reported_at_once():
    assert len(check_recipe(compose(["actor_rollout_ref.rollout.top_p=0.7", "actor_rollout_ref.rollout.n=1"]))) == 2


@pytest.mark.parametrize("technique", ["dapo", "naive_grpo"])
def test_no_rule_fires_on_a_shipped_recipe(technique):
    assert check_recipe(compose([f"technique={technique}"])) == []


def test_missing_inputs_are_named(tmp_path):
    found = check_inputs(compose([f"run_dir={tmp_path}"]))
    assert [problem.split("=")[0] for problem in found] == [
        "data.train_files",
        "data.val_files",
        "actor_rollout_ref.model.path",
    ]


def test_bad_gold_is_named_with_file_row_and_value(tmp_path):
    good, bad, broken = tmp_path / "good.parquet", tmp_path / "bad.parquet", tmp_path / "broken.parquet"
    pq.write_table(pa.Table.from_pylist([{"reward_model": {"ground_truth": "34"}}]), good)
    pq.write_table(pa.Table.from_pylist([{"reward_model": {"ground_truth": g}} for g in ("1", "")]), bad)
    broken.write_text("no parquet")
    found = check_inputs(compose([f"data.train_files=[{good},{bad}]", f"data.val_files={broken}"]))
    assert [p.split(":")[0] for p in found[:2]] == ["data.train_files", "data.val_files"]
    assert str(bad) in found[0]
    assert "1" in found[0]


def test_loop_without_a_checkpoint_is_refused():
    assert "saves no checkpoint" in check_loop(compose(["trainer.save_freq=-1"]))[0]
    assert check_loop(compose([])) == []


def test_folder_that_is_no_model(tmp_path):
    assert "no config.json" in check_model(compose([f"actor_rollout_ref.model.path={tmp_path}"]))[0]


def test_hub_name_is_left_to_the_hub():
    assert check_model(compose(["actor_rollout_ref.model.path=Qwen/Qwen2.5-32B"])) == []


def test_too_small_a_machine_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(preflight.psutil, "virtual_memory", lambda: SimpleNamespace(available=3e9))
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e8))
    found = check_machine(compose(["cluster=cpu", f"run_dir={tmp_path}/new"]))
    assert [problem.split(":")[0].split(" at ")[0] for problem in found] == [
        "memory",
        "disk space",
        "shared memory in /dev/shm",
    ]
    assert all("needed" in problem for problem in found)
