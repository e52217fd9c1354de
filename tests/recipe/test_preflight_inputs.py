"""Rules on what a run reads and where it runs: data, model, machine, disks."""

import json
import os
import time
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recipe.checkpoints import TRACKER_FILE
from recipe.preflight import (
    check_inputs,
    check_machine,
    check_model,
    check_recipe,
    check_storage,
    machine,
    preflight,
    storage,
)
from recipe.preflight.data import Data
from recipe.preflight.model_facts import model_facts
from recipe.preflight.secrets import none_in_configuration
from tests.recipe.inputs import write_data, write_model
from tests.recipe.test_checkpoints import make
from tests.recipe.variants import BIG, ROLLOUT, SAMPLER, variant

# Data


def data_problems(config):
    return [problem for problem in check_inputs(config) if not problem.startswith("actor_rollout_ref.model.path")]


def test_good_data_pass(recipe):
    config = recipe()
    assert data_problems(config) == []
    assert Data(config).rows(config, "train_files") == 40


def test_missing_inputs_are_named(tmp_path):
    found = check_inputs(variant(f"run_dir={tmp_path}"))
    assert [problem.split("=")[0] for problem in found] == [
        "data.train_files",
        "data.val_files",
        "actor_rollout_ref.model.path",
    ]


def test_what_the_loop_makes_is_a_note_and_not_missing(tmp_path):
    result = preflight(variant(f"run_dir={tmp_path}"), in_loop=True)
    assert [problem for problem in result.problems if str(tmp_path) in problem] == []
    (note,) = [note for note in result.notes if "the loop makes it" in note]
    assert all(key in note for key in ("data.train_files=", "data.val_files=", "actor_rollout_ref.model.path="))
    given = variant(f"run_dir={tmp_path}", "loop.base_model=null", f"actor_rollout_ref.model.path={tmp_path}/gone")
    assert any(f"{tmp_path}/gone is missing" in problem for problem in preflight(given, in_loop=True).problems)


def test_bad_gold_is_named_with_file_row_and_value(tmp_path):
    good, bad, broken = tmp_path / "good.parquet", tmp_path / "bad.parquet", tmp_path / "broken.parquet"
    write_data(good, ["a"] * 1 + [f"p{i}" for i in range(40)])
    write_data(bad, ["a", "b"], golds=["1", ""])
    broken.write_text("no parquet")
    found = check_inputs(variant(f"data.train_files=[{good},{bad}]", f"data.val_files={broken}"))
    assert f"data.train_files: {bad}: 1 of 2 ground truths cannot be graded" in found[0]
    assert "row 1: ground truth ''" in found[0]
    assert f"data.val_files: {broken} is no readable parquet file" in found[1]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.train_batch_size=64"], "data.train_batch_size=64 prompts is more than the 40 rows of data.train_files"),
        (["data.train_max_samples=16"], "more than the 16 rows"),
        ([f"{SAMPLER}.bounds.max_passes=0.5"], "sampler_kwargs.bounds.max_passes=0.5 times the 40 rows"),
        ([f"{SAMPLER}.bounds.max_generated=8"], "max_generated=8 prompts a step is less than data.train_batch_size=32"),
        (["trainer.total_epochs=1"], "total_epochs=1 ends the run after 1 steps, before"),
    ],
)  # fmt: skip
def test_too_few_rows(recipe, overrides, message):
    found = data_problems(recipe(*overrides))
    assert any(message in problem for problem in found), found


def test_prompts_as_plain_text_are_named(tmp_path):
    row = {"data_source": "math_dapo", "prompt": "1+1=?", "reward_model": {"ground_truth": "2", "style": "rule"}}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "d.parquet")
    config = variant(f"data.train_files={tmp_path}/d.parquet", f"data.val_files={tmp_path}/d.parquet")
    assert any("prompt='1+1=?' is not a list of messages" in problem for problem in check_inputs(config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_source": None}, "row 1: data_source=None: name a source"),
        ({"prompt": []}, "row 1: prompt=[] is not a list of messages"),
        ({"prompt": None}, "row 1: prompt=None is not a list of messages"),
        (
            {"reward_model": {"ground_truth": None, "style": "rule"}},
            "row 1: ground truth None is missing; drop",
        ),
    ],
)
def test_a_row_that_lacks_something_is_named_with_its_file(tmp_path, change, message):
    prompt = [{"role": "user", "content": "1+1=?"}]
    row = {"data_source": "math_dapo", "prompt": prompt, "reward_model": {"ground_truth": "2", "style": "rule"}}
    path = tmp_path / "d.parquet"
    pq.write_table(pa.Table.from_pylist([row, row | change]), path)
    found = check_inputs(variant(f"data.train_files={path}", "preflight.allow_missing_cards=true"))
    assert any(str(path) in problem and message in problem for problem in found), found


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"hidden_size": "abc"}, "config.json: hidden_size='abc' must be a whole number of at least 1"),
        ({"num_hidden_layers": -2}, "config.json: num_hidden_layers=-2 must be a whole number of at least 1"),
        ({"num_key_value_heads": "x"}, "config.json: num_key_value_heads='x' must be a whole number"),
    ],
)
def test_a_model_of_an_impossible_shape_is_refused(tmp_path, shape, message):
    (found,) = check_model(variant(f"actor_rollout_ref.model.path={write_model(tmp_path / 'm', **shape)}"))
    assert message in found


def test_a_model_without_weights_or_tokenizer_is_refused(tmp_path):
    folder = write_model(tmp_path / "m")
    config = variant(f"actor_rollout_ref.model.path={folder}")
    assert check_model(config) == []
    (folder / "model.safetensors").unlink()
    (folder / "tokenizer.json").unlink()
    weights, tokenizer = check_model(config)
    assert f"{folder} has no weights" in weights
    assert f"{folder} has no tokenizer" in tokenizer


def test_1_repeated_training_rows(recipe):
    (found,) = data_problems(recipe(train=["same"] * 5 + [f"p{i}" for i in range(35)]))
    assert "repeats prompts (4 of the first 40 rows)" in found


def test_11_repeated_validation_rows_with_several_samples(recipe):
    repeated = ["v"] * 4
    (found,) = data_problems(recipe(val=repeated))
    assert "actor_rollout_ref.rollout.val_kwargs.n=4 asks for several samples" in found
    assert data_problems(recipe(f"{ROLLOUT}.val_kwargs.n=1", val=repeated)) == []


def test_11_the_published_aime_file_repeats_each_problem(recipe, shared_data):
    published = (f"data.val_files={shared_data}/aime-2024.parquet", "preflight.allow_missing_cards=true")
    (found,) = data_problems(recipe(*published, f"{ROLLOUT}.val_kwargs.n=32"))
    assert "repeats prompts (930 of the first 960 rows)" in found
    assert data_problems(recipe(*published, f"{ROLLOUT}.val_kwargs.n=1")) == []


def test_48_prompts_longer_than_the_limit(recipe):
    found = data_problems(recipe(card={"tokens": {"count": 40, "max": 3000, "p99": 9, "mean": 5}}))
    assert len(found) == 2
    assert "max_prompt_length=24 is less than the longest prompt" in found[0]
    assert "3000 tokens by its card" in found[0]


def test_48_prompts_that_nobody_measured_are_noted(recipe):
    said = "has no prompt lengths: verl cuts a prompt of more than data.max_prompt_length=24 tokens on the left"
    assert sum(said in note for note in preflight(recipe(card={"tokens": None})).notes) == 2
    measured = recipe(card={"tokens": {"count": 40, "max": 9, "p99": 9, "mean": 5}})
    assert not any("no prompt lengths" in note for note in preflight(measured).notes)
    filtered = recipe("data.filter_overlong_prompts=true", card={"tokens": None})
    assert not any("no prompt lengths" in note for note in preflight(filtered).notes)


def test_9_prompt_and_reward_of_two_formats(recipe):
    found = data_problems(recipe("answer_format=boxed"))
    assert "answer_format=boxed, but the prompts of" in found[0]


def test_card_of_another_file(recipe, tmp_path):
    config = recipe()
    write_data(tmp_path / "train.parquet", [f"q{i}" for i in range(40)])  # the card stays
    assert "describes a file with SHA-256" in data_problems(config)[0]


def test_missing_card_is_an_error_unless_allowed(recipe, tmp_path):
    allowed = "preflight.allow_missing_cards=true"
    config = recipe()
    (tmp_path / "train.card.json").unlink()
    (found,) = data_problems(config)
    assert f"data.train_files={tmp_path}/train.parquet has no card (train.card.json)" in found
    assert "python -m data_prep.prepare" in found
    assert allowed in found
    config = recipe(allowed)
    (tmp_path / "train.card.json").unlink()
    assert data_problems(config) == []
    assert any("train.parquet has no card beside it" in note for note in preflight(config).notes)


def test_60_data_source_that_verl_does_not_know(recipe, tmp_path):
    verls_own = ["technique=naive_grpo", "reward.reward_manager.source=register", "reward.reward_manager.name=naive"]
    config = recipe(*verls_own)
    assert data_problems(config) == []
    write_data(tmp_path / "val.parquet", ["a", "b"], sources=["aime_2024", "my_math"], card={})
    (found,) = data_problems(config)
    assert "data_source='my_math'" in found
    assert data_problems(recipe()) == []  # our manager grades every source


def test_a_large_file_is_looked_at_quickly(tmp_path):
    rows = 300_000
    prompt = pa.array([[{"role": "user", "content": f"problem {i % 10_000}"}] for i in range(10_000)])
    table = pa.table(
        {
            "data_source": pa.array(["math_dapo"] * 10_000),
            "prompt": prompt,
            "reward_model": pa.array([{"ground_truth": str(i), "style": "rule"} for i in range(10_000)]),
        }
    )
    with pq.ParquetWriter(tmp_path / "big.parquet", table.schema) as writer:
        for _ in range(rows // 10_000):
            writer.write_table(table)
    config = variant(
        "cluster=cpu", f"data.train_files={tmp_path}/big.parquet", f"data.val_files={tmp_path}/big.parquet"
    )
    started = time.process_time()
    found = Data(config)
    assert time.process_time() - started < 2
    assert found.rows(config, "train_files") == rows
    assert found.facts["train_files"][0].repeated == 90_000  # of the 100,000 that are looked at


# Model


def test_model_is_read_without_transformers(tmp_path):
    config = variant(f"actor_rollout_ref.model.path={write_model(tmp_path / 'm')}")
    facts = model_facts(config)
    assert (facts.layers, facts.heads, facts.kv_heads, facts.head_dim, facts.parameters) == (2, 4, 2, 16, 11)
    assert facts.eos_tokenizer == facts.eos_config == facts.eos_generation == {2}
    assert check_recipe(config) == []
    assert check_model(config) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_eos": 7}, "the tokenizer ends a text with id 7, generation_config.json with [2]"),
        ({"tokenizer_eos": 7, "generation_eos": None}, "the tokenizer ends a text with id 7, config.json with [2]"),
        ({"generation_eos": [8, 9]}, "generation_config.json with [8, 9]"),
        ({"max_position_embeddings": 64}, "max_position_embeddings=64"),
    ],
)
def test_57_and_15_model_files_that_disagree(tmp_path, files, message):
    config = variant(f"actor_rollout_ref.model.path={write_model(tmp_path / 'm', **files)}")
    assert any(message in problem for problem in check_recipe(config))


def test_several_end_tokens_agree_when_one_is_the_tokenizers(tmp_path):
    folder = write_model(tmp_path / "m", generation_eos=[1, 2])
    assert check_recipe(variant(f"actor_rollout_ref.model.path={folder}")) == []


def test_a_model_that_ends_with_its_tokenizers_token_may_name_another_in_its_configuration(tmp_path):
    """The three of Qwen3.5-4B, whose config.json nests its decoder."""
    folder = write_model(
        tmp_path / "m",
        eos=None,
        generation_eos=[248046, 248044],
        tokenizer_eos=248046,
        text_config={"eos_token_id": 248044},
    )
    whole = json.loads((folder / "config.json").read_text())
    whole["text_config"] |= {key: value for key, value in whole.items() if key not in ("text_config", "eos_token_id")}
    (folder / "config.json").write_text(json.dumps({"text_config": whole["text_config"]}))
    config = variant(f"actor_rollout_ref.model.path={folder}")
    facts = model_facts(config)
    assert (facts.eos_config, facts.eos_tokenizer) == ({248044}, {248046})
    assert check_recipe(config) == []


def test_parameters_of_a_plain_model_are_those_that_transformers_counts(tmp_path):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=300, intermediate_size=128, tie_word_embeddings=False, **shape)
    with torch.device("meta"):
        counted = sum(p.numel() for p in Qwen2ForCausalLM(config).parameters())
    config.save_pretrained(tmp_path)
    assert model_facts(variant(f"actor_rollout_ref.model.path={tmp_path}")).parameters == counted


def test_published_sizes_are_the_published_ones():
    names = {
        "Qwen/Qwen2.5-32B": 32.8,
        "Qwen/Qwen2.5-Math-7B": 7.62,
        "Qwen/Qwen2.5-0.5B": 0.49,
        "Qwen/Qwen3-4B-Base": 4.0,
    }
    for name, billions in names.items():
        facts = model_facts(variant(f"actor_rollout_ref.model.path={name}"))
        assert facts.parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_model_with_code_of_its_own_needs_an_explicit_key(tmp_path, name):
    folder = write_model(tmp_path / "m")
    path = f"actor_rollout_ref.model.path={folder}"
    assert check_model(variant(path)) == []
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(content | {"auto_map": {"AutoTokenizer": ["code.Tokenizer", None]}}))
    (found,) = check_model(variant(path))
    assert f"{folder / name} names Python code of the model's own" in found
    assert check_model(variant(path, "actor_rollout_ref.model.trust_remote_code=true")) == []


def test_secret_of_the_environment_is_found_wherever_it_stands(recipe):
    environ = {"HF_TOKEN": "planted-4711", "HOME": "/home/me"}
    assert list(none_in_configuration(recipe(), environ)) == []
    found = list(none_in_configuration(recipe("trainer.project_name=x-planted-4711"), environ))
    assert any(problem.startswith("trainer.project_name holds the value of HF_TOKEN") for problem in found)
    assert not any("4711" in problem for problem in found)


def test_folder_that_is_no_model(tmp_path):
    config = variant(f"actor_rollout_ref.model.path={tmp_path}")
    assert "no config.json" in check_model(config)[0]


def test_file_of_a_model_is_no_folder(tmp_path):
    (tmp_path / "model.safetensors").touch()
    (found,) = check_model(variant(f"actor_rollout_ref.model.path={tmp_path}/model.safetensors"))
    assert f"model.safetensors is a file: give the model folder, {tmp_path} perhaps" in found


def test_truncated_weights_are_named(tmp_path):
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"\x10\0\0")
    config = variant(f"actor_rollout_ref.model.path={folder}")
    assert "model.safetensors is no safetensors file" in check_model(config)[0]
    assert check_recipe(config) == []  # nothing wrong with the recipe itself


def test_hub_name_is_left_to_the_hub():
    assert check_model(variant("actor_rollout_ref.model.path=Qwen/Qwen2.5-32B")) == []


# Machine and disks


def test_too_small_a_machine_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: False)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=3e9))
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e8))
    found = check_machine(variant(f"run_dir={tmp_path}/new"))
    assert [problem.split(":")[0].split(" at ")[0] for problem in found] == [
        "memory",
        "disk space",
        "shared memory in /dev/shm",
    ]
    assert all("needed" in problem for problem in found)


@pytest.mark.parametrize(
    ("cluster", "visible", "message"),
    [
        ("cpu", True, "an accelerator is visible"),
        ("single_node", False, "no accelerator is visible"),
        ("cpu", False, None),
        ("single_node", True, None),
        ("multi_node", False, None),  # joins a cluster; its head node may have none
    ],
)
def test_recipe_and_device(monkeypatch, tmp_path, cluster, visible, message):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: visible)
    monkeypatch.setattr(machine, "_RAY_STARTED", tmp_path / "none")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    found = list(machine.device(variant(f"cluster={cluster}")))
    assert bool(found) == bool(message)
    assert not message or message in found[0]
    assert not message or f"cluster={cluster}" in found[0]


def test_gpu_recipe_in_a_job_of_a_cluster(monkeypatch):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert list(machine.device(variant("cluster=single_node"))) == []


@pytest.mark.parametrize(
    ("overrides", "installed", "visible", "refused"),
    [
        (["cluster=single_node"], [], True, True),
        (["cluster=single_node"], ["flash_attn"], True, False),
        (["cluster=single_node"], ["kernels"], True, False),  # transformers fetches flash attention from the Hub
        (["cluster=single_node", "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"], [], True, False),
        (["cluster=multi_node"], [], False, False),  # a head without accelerators says nothing of its nodes
        (["cluster=cpu"], [], True, False),
    ],
)
def test_flash_attention_is_installed_where_training_takes_it(monkeypatch, overrides, installed, visible, refused):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: visible)
    monkeypatch.setattr(machine, "find_spec", lambda name: name in installed or None)
    found = [problem for problem in check_machine(variant(*overrides)) if "flash" in problem]
    assert bool(found) == refused
    if refused:
        assert "requirements-flash-attn.txt" in found[0]
        assert "attn_implementation=sdpa" in found[0]
        assert "ulysses_sequence_parallel_size=1" in found[0]


def test_run_dir_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    for run_dir in ("file", "file/below"):
        (found,) = machine.run_folder(variant(f"run_dir={tmp_path}/{run_dir}"))
        assert f"{tmp_path}/file is a file" in found


@pytest.mark.skipif(os.geteuid() != 0, reason="for others /proc is not writable, and that is said")
def test_run_dir_where_no_file_can_be():
    (found,) = machine.run_folder(variant("run_dir=/proc/run"))
    assert "/proc stores no files" in found
    assert not [problem for problem in machine.room(variant("run_dir=/proc/run")) if "/proc" in problem]


def test_run_dir_in_the_folder_of_a_ray_job(tmp_path):
    (found,) = machine.run_folder(variant(f"run_dir={tmp_path}/_ray_pkg_0123/outputs/run"))
    assert "the folder that Ray unpacked for this job, and removes" in found


def test_44_local_checkpoints_of_several_nodes(monkeypatch, tmp_path):
    mounts = [
        SimpleNamespace(mountpoint="/", fstype="ext4"),
        SimpleNamespace(mountpoint=str(tmp_path), fstype="lustre"),
    ]
    monkeypatch.setattr(storage.psutil, "disk_partitions", lambda all: mounts)
    (found,) = storage.shared_disk(variant(*BIG, "run_dir=/elsewhere/run"))
    assert "is on a local disk (ext4) while trainer.nnodes=16" in found
    assert list(storage.shared_disk(variant(*BIG, f"run_dir={tmp_path}/run"))) == []
    assert list(storage.shared_disk(variant(*BIG, "run_dir=/elsewhere/run", "preflight.shared_checkpoints=true"))) == []
    assert list(storage.shared_disk(variant("cluster=single_node", "run_dir=/elsewhere/run"))) == []


def test_a_local_model_folder_of_several_nodes_is_noted(monkeypatch, tmp_path):
    mounts = [SimpleNamespace(mountpoint="/", fstype="ext4")]
    monkeypatch.setattr(storage.psutil, "disk_partitions", lambda all: mounts)
    model = f"actor_rollout_ref.model.path={write_model(tmp_path / 'm')}"
    said = "is on a local disk (ext4) while trainer.nnodes=16: every node must have this model there"
    assert any(said in note for note in preflight(variant(*BIG, model)).notes)
    assert not any(said in note for note in preflight(variant(*BIG, model), recipe_only=True).notes)
    assert not any("every node" in note for note in preflight(variant(*BIG)).notes)
    mounts.append(SimpleNamespace(mountpoint=str(tmp_path), fstype="lustre"))
    assert not any("every node" in note for note in preflight(variant(*BIG, model)).notes)


def test_45_disk_for_the_kept_checkpoints_and_the_one_being_written(monkeypatch, tmp_path):
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: SimpleNamespace(free=1.3e12))
    config = variant(*BIG, f"run_dir={tmp_path}", "preflight.shared_checkpoints=true")
    assert check_storage(config) == []
    config.trainer.max_actor_ckpt_to_keep = 3
    (found,) = check_storage(config)
    assert "4 checkpoints of 393.2 GB need 1572.7 GB" in found


def test_45_only_space_that_the_rotation_frees_counts(monkeypatch, tmp_path):
    """Three checkpoints of 11 parameters x 16 bytes, two kept: what is there already counts once it goes."""
    root = tmp_path / "checkpoints"
    shown = {"free": 3 * 176}
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: SimpleNamespace(**shown))
    model = f"actor_rollout_ref.model.path={write_model(tmp_path / 'm')}"

    def fits(*overrides):
        return check_storage(variant(f"run_dir={tmp_path}", model, "trainer.total_training_steps=30", *overrides)) == []

    assert fits()
    (root / "abandoned_global_step_10").mkdir(parents=True)
    (root / "abandoned_global_step_10" / "weights").write_bytes(bytes(10_000))
    shown["free"] -= 1
    assert not fits()
    for step in (1, 2):
        checkpoint = make(root, step)
        (checkpoint / "actor" / "weights").write_bytes(bytes(10_000))
    assert fits()
    assert not fits("trainer.resume_mode=disable")
    assert not fits("trainer.max_actor_ckpt_to_keep=null", "trainer.save_freq=1")
    (checkpoint / "data.pt").unlink()
    assert fits()
    shown["free"] = 175  # the first is written before anything goes
    assert not fits()


def test_44_and_43_checkpoints_of_other_ranks_are_refused(recipe, tmp_path):
    config = recipe()
    actor = tmp_path / "run" / "checkpoints" / "global_step_3" / "actor"
    actor.mkdir(parents=True)
    for rank in range(8, 16):
        (actor / f"model_world_size_16_rank_{rank}.pt").write_bytes(b"x")
    (actor.parents[1] / TRACKER_FILE).write_text("3")
    (found,) = data_problems(config)
    assert "no checkpoint that is complete for 1 ranks" in found
    assert "export the model" in found
