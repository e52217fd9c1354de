"""Every rule: one wrong configuration each, the right message, and silence on everything that is shipped."""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.card import dump, sha256_of
from recipe.checkpoints import TRACKER_FILE
from recipe.preflight import (
    check_inputs,
    check_loop,
    check_machine,
    check_model,
    check_recipe,
    check_storage,
    machine,
    preflight,
    storage,
)
from recipe.preflight.data import Data
from recipe.preflight.memory import checkpoint_bytes, memory
from recipe.preflight.model_facts import model_facts
from recipe.preflight.plan import plan
from tests.recipe.recipes import NAMES, words
from tests.recipe.variants import variant

ACTOR, ROLLOUT, SAMPLER = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "trainer.v1.sampler.sampler_kwargs"
BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"
BIG = ["experiment=qwen2.5_32b", "cluster=multi_node"]

# Name (with the number of the pain point where it has one): overrides, and what the message must say.
WRONG = {
    "2 epochs instead of steps": (["trainer.total_training_steps=null"], "total_training_steps=None must be"),
    "mini batch of nothing": ([f"{ACTOR}.ppo_mini_batch_size=0"], "ppo_mini_batch_size=0 must be"),
    "no devices": (["trainer.n_gpus_per_node=0"], "n_gpus_per_node=0 must be"),
    "batch that is a word": (["data.train_batch_size=abc"], "train_batch_size=abc must be"),
    "no steps": (["trainer.total_training_steps=0"], "total_training_steps=0 must be"),
    "seed that is a word": (["seed=x"], "seed=x must be"),
    "6 section of an older verl": (["reward_model.reward_manager=dapo"], "reward.reward_manager"),
    "7 penalty where nobody reads it": (["+reward_model.overlong_buffer.enable=true"], "overlong_buffer_cfg"),
    "7 manager that pays no penalty": (
        ["reward.reward_manager.source=register", "reward.reward_manager.name=naive"],
        "punishment would be silently off",
    ),
    "14 mini batch in samples": ([f"{ACTOR}.ppo_mini_batch_size=64"], "both count prompts, not samples"),
    "15 model of 4096 positions": (
        [*BIG, "actor_rollout_ref.model.path=Qwen/Qwen2.5-Math-7B"],
        "more than the model's max_position_embeddings=4096",
    ),
    "15 context raised for the trainer only": (
        ["experiment=qwen2.5_7b_math", "cluster=multi_node", f"~{ROLLOUT}.engine_kwargs.vllm.hf_overrides"],
        "the rollout engine still sees 4096",
    ),
    "15 short window": ([f"{ROLLOUT}.max_model_len=40"], "max_model_len=40"),
    "23 buffer above the limit": ([f"{BUFFER}.len=64"], "overlong_buffer_cfg.len=64 must lie between 0 and"),
    "23 penalty of the wrong sign": ([f"{BUFFER}.penalty_factor=-1.0"], "penalty_factor=-1.0 must be positive"),
    "23 limit that drifted": (["reward.reward_kwargs.max_resp_len=32"], "max_resp_len=32 differs"),
    "24 both overlong methods": (["overlong_filtering.enable=true"], "one or the other"),
    "24 filtering in another loss": (
        ["technique=overlong_filtering", f"{ACTOR}.policy_loss.loss_mode=vanilla"],
        "loss_mode=vanilla",
    ),
    "24 filtering in another agent loop": (
        ["technique=overlong_filtering", f"{ROLLOUT}.agent.default_agent_loop=single_turn_agent"],
        "masks nothing",
    ),
    "31 spread below nothing": ([f"{SAMPLER}.filter.min_spread=-1"], "min_spread=-1"),
    "33 generation batch": (["data.gen_batch_size=1536"], "gen_batch_size=1536 is overridden to 1"),
    "4 limit that verl ignores": (
        ["algorithm.filter_groups.max_num_gen_batches=10"],
        "max_num_gen_batches=10 is ignored",
    ),
    "4 sampler that never gives up": (["trainer.v1.sampler.custom_sampler.path=null"], "never gives up"),
    "5 shaped filter metric": (["algorithm.filter_groups.metric=reward"], "contains the overlong penalty"),
    "no bound": ([f"{SAMPLER}.bounds.max_passes=null"], "may never end"),
    "unknown surplus": ([f"{SAMPLER}.surplus=x"], "surplus='x' is unknown"),
    "unknown exhaustion": ([f"{SAMPLER}.bounds.on_exhausted=bla"], "on_exhausted='bla'"),
    "unknown reward mode": (["reward.reward_kwargs.mode=zzz"], "zzz"),
    "unknown answer format": (["answer_format=zzz"], "zzz"),
    "43 checkpoint without the optimizer": (
        [f"{ACTOR}.checkpoint.save_contents=[model,hf_model]"],
        "lacks optimizer, extra",
    ),
    "44 path that is no checkpoint": (
        ["trainer.resume_mode=resume_path", "trainer.resume_from_path=/x"],
        "must be a global_step_N folder",
    ),
    "44 path beside a checkpoint": (
        ["trainer.resume_mode=resume_path", "trainer.resume_from_path=/x/global_step_10_backup"],
        "must be a global_step_N folder",
    ),
    "no frequency": (["trainer.save_freq=null"], "save_freq=None must be a whole number of steps"),
    "44 unknown way to resume": (["trainer.resume_mode=always"], "resume_mode=always is unknown"),
    "45 no checkpoint kept": (["trainer.max_actor_ckpt_to_keep=0"], "max_actor_ckpt_to_keep=0 must be at least 1"),
    "45 save that says never when it is done": ([f"{ACTOR}.checkpoint.async_save=true"], "async_save=true"),
    "46 data order by chance": (["data.seed=null"], "data.seed=null"),
    "47 mini batch that does not divide": (["data.train_batch_size=30"], "must divide data.train_batch_size=30"),
    "47 mini batch above the batch": (
        ["data.train_batch_size=16", f"{ACTOR}.ppo_mini_batch_size=128"],
        "nearest: 16",
    ),
    "47 ranks that cannot share": (
        ["trainer.n_gpus_per_node=32", f"{ACTOR}.ppo_mini_batch_size=2"],
        "use a multiple of 4, such as 4",
    ),
    "47 micro-batch shorter than a sequence": (
        [f"{ACTOR}.ppo_max_token_len_per_gpu=80"],
        "must hold the longest sequence, max_prompt_length + max_response_length = 88 tokens; use at least 88",
    ),
    "one sample": ([f"{ROLLOUT}.n=1"], "at least 2 samples"),
    "11 greedy samples": ([f"{ROLLOUT}.val_kwargs.do_sample=false"], "repeats one greedy answer"),
    "50 probabilities not compared": ([f"{ROLLOUT}.calculate_log_probs=false"], "calculate_log_probs=false hides"),
    "51 top_p in training": ([f"{ROLLOUT}.top_p=0.7"], "top_p=0.7 biases"),
    "51 temperature": ([f"{ROLLOUT}.temperature=0.6"], "temperature=0.6 biases"),
    "51 top_k": ([f"{ROLLOUT}.top_k=50"], "top_k=50 biases"),
    "52 clip range upside down": ([f"{ACTOR}.clip_ratio_high=0.1"], "clip_ratio_high=0.1"),
    "53 unknown aggregation": ([f"{ACTOR}.loss_agg_mode=token_mean"], "loss_agg_mode=token_mean is unknown"),
    "54 model larger than the GPUs": (
        ["experiment=qwen2.5_32b", "cluster=single_node"],
        "take 66 GB of each GPU, preflight.gpu_memory_gb=40",
    ),
    "54 engine and actor larger than the GPU": (
        ["experiment=qwen2.5_0.5b_single_gpu", "cluster=single_gpu", f"{ROLLOUT}.gpu_memory_utilization=0.95"],
        "param_offload=true",
    ),
    "54 cache below one sequence": (
        [*BIG, f"{ROLLOUT}.gpu_memory_utilization=0.26"],
        "less than one sequence of 22528",
    ),
    "55 nodes of a local cluster": (["trainer.nnodes=2"], "a local cluster has one node"),
    "55 resources of a joined cluster": (["ray_kwargs.ray_init.address=auto"], "Ray refuses resources"),
    "tensor parallel and devices": ([f"{ROLLOUT}.tensor_model_parallel_size=3"], "does not divide nnodes"),
    "tensor parallel over nodes": (
        [*BIG, "trainer.n_gpus_per_node=6", f"{ROLLOUT}.tensor_model_parallel_size=4"],
        "would straddle nodes; nearest: 3",
    ),
    "tensor parallel and heads": (
        ["experiment=qwen2.5_0.5b_single_gpu", "cluster=single_node", f"{ROLLOUT}.tensor_model_parallel_size=4"],
        "14 attention heads and 2 key-value heads; possible: 1, 2, 14",
    ),
    "Ulysses and devices": (
        ["experiment=qwen2.5_7b_math", "cluster=multi_node", f"{ACTOR}.ulysses_sequence_parallel_size=3"],
        "ulysses_sequence_parallel_size=3 does not divide nnodes",
    ),
    "Ulysses without flash attention": (
        [*BIG, "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"],
        "silently wrong",
    ),
    "Ulysses without packing": ([*BIG, "actor_rollout_ref.model.use_remove_padding=false"], "use_remove_padding=true"),
    "61 relative path of a reward": (
        ["reward.reward_manager.module.path=my/reward.py"],
        "does not exist in a Ray worker's folder",
    ),
    "61 file that is not there": (["reward.reward_manager.module.path=/nowhere/reward.py"], "there is no such file"),
    "61 module that is not installed": (
        ["reward.reward_manager.module.path=pkg://my_rewards.math"],
        "no module my_rewards.math is installed",
    ),
    "61 module without the class": (["reward.reward_manager.name=Missing"], "does not define Missing"),
    "63 dapo in name only": (["algorithm.filter_groups.enable=false"], "technique=dapo, but it lacks dynamic sampling"),
    "64 KL in the reward and a filter": (["algorithm.use_kl_in_reward=true"], "DAPO has no KL term"),
    "64 reward model and a filter": (["reward.reward_model.enable=true"], "reward.reward_model.enable=true"),
    "old trainer": (["trainer.use_v1=false"], "ignores the group filter"),
    "trainer of another kind": (["trainer.v1.trainer_mode=sync"], "trainer_mode=sync"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_recipe_gets_its_message(name):
    overrides, message = WRONG[name]
    config = variant(*overrides)
    if "gpu_memory_gb=40" in message:
        config.preflight.gpu_memory_gb = 40
    found = check_recipe(config)
    assert any(message in problem for problem in found), found


def test_all_problems_are_reported_at_once():
    assert len(check_recipe(variant(f"{ROLLOUT}.top_p=0.7", f"{ROLLOUT}.n=1"))) == 2


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_fires_on_a_shipped_recipe(name):
    assert check_recipe(variant(*words(name))) == []


TECHNIQUES = [path.stem for path in sorted((Path(__file__).parents[2] / "configs" / "technique").glob("*.yaml"))]


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_no_rule_fires_on_a_technique(technique):
    assert check_recipe(variant(f"technique={technique}")) == []


def test_overlong_filtering_may_be_forced():
    assert check_recipe(variant("overlong_filtering.enable=true", "overlong_filtering.force=true")) == []


def test_preflight_imports_no_heavy_library_and_takes_less_than_three_seconds():
    code = (
        "import sys, time; t = time.process_time(); sys.argv = ['x', '--recipe-only', 'cluster=cpu'];"
        "import runpy; runpy.run_module('recipe.preflight', run_name='__main__');"
        "heavy = {'torch', 'verl', 'ray', 'transformers'} & set(sys.modules); assert not heavy, heavy;"
        "assert time.process_time() - t < 3, time.process_time() - t"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert "nothing stops this run" in done.stdout


# Data


def write_data(path, prompts, sources=None, golds=None, card=None):
    """A parquet file in the training schema, and a card that describes it unless `card` is None."""
    rows = [
        {
            "data_source": (sources or ["math_dapo"] * len(prompts))[i],
            "prompt": [{"role": "user", "content": text}],
            "reward_model": {"ground_truth": (golds or ["34"] * len(prompts))[i], "style": "rule"},
        }
        for i, text in enumerate(prompts)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    if card is not None:
        content = {"sha256": sha256_of(path), "rows": len(rows), "options": {"template": "answer"}} | card
        path.with_suffix(".card.json").write_text(dump(content))
    return path


@pytest.fixture
def recipe(tmp_path):
    """A tiny recipe whose data exist: 40 training rows, 4 validation rows, both with cards."""

    def make(*overrides, train=None, val=None, card=None):
        card = {} if card is None else card
        write_data(tmp_path / "train.parquet", train or [f"p{i}" for i in range(40)], card=card)
        write_data(tmp_path / "val.parquet", val or [f"v{i}" for i in range(4)], card=card)
        files = [f"data.train_files={tmp_path}/train.parquet", f"data.val_files={tmp_path}/val.parquet"]
        return variant(f"run_dir={tmp_path}/run", *files, *overrides)

    return make


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


def test_1_repeated_training_rows(recipe):
    (found,) = data_problems(recipe(train=["same"] * 5 + [f"p{i}" for i in range(35)]))
    assert "repeats prompts (4 of the first 40 rows)" in found


def test_11_repeated_validation_rows_with_several_samples(recipe):
    repeated = ["v"] * 4
    (found,) = data_problems(recipe(val=repeated))
    assert "actor_rollout_ref.rollout.val_kwargs.n=4 asks for several samples" in found
    assert data_problems(recipe(f"{ROLLOUT}.val_kwargs.n=1", val=repeated)) == []


def test_11_the_published_aime_file_repeats_each_problem(recipe, shared_data):
    published = f"data.val_files={shared_data}/aime-2024.parquet"
    (found,) = data_problems(recipe(published, f"{ROLLOUT}.val_kwargs.n=32"))
    assert "repeats prompts (930 of the first 960 rows)" in found
    assert data_problems(recipe(published, f"{ROLLOUT}.val_kwargs.n=1")) == []


def test_48_prompts_longer_than_the_limit(recipe):
    found = data_problems(recipe(card={"tokens": {"count": 40, "max": 3000, "p99": 9, "mean": 5}}))
    assert len(found) == 2
    assert "max_prompt_length=24 is less than the longest prompt" in found[0]
    assert "3000 tokens by its card" in found[0]


def test_9_prompt_and_reward_of_two_formats(recipe):
    found = data_problems(recipe("answer_format=boxed"))
    assert "answer_format=boxed, but the prompts of" in found[0]


def test_card_of_another_file(recipe, tmp_path):
    config = recipe()
    write_data(tmp_path / "train.parquet", [f"q{i}" for i in range(40)])  # the card stays
    assert "describes a file with SHA-256" in data_problems(config)[0]


def test_missing_card_is_a_note_and_no_error(recipe, tmp_path):
    config = recipe()
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


def write_model(folder, eos=2, generation_eos=2, tokenizer_eos=2, **config):
    """A model folder by its small files, and one weight file of 2 x 3 + 5 = 11 parameters."""
    folder.mkdir(exist_ok=True)
    shape = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    shape |= {"vocab_size": 300, "intermediate_size": 128, "max_position_embeddings": 4096, "eos_token_id": eos}
    (folder / "config.json").write_text(json.dumps(shape | config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation_eos}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    added = [{"id": tokenizer_eos, "content": "<|end|>"}]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": {"vocab": {}}}))
    header = json.dumps({"__metadata__": {}, "a": {"shape": [2, 3]}, "b": {"shape": [5]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


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
        ({"tokenizer_eos": 7}, "the tokenizer ends a text with id 7, config.json with [2]"),
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


def test_folder_that_is_no_model(tmp_path):
    config = variant(f"actor_rollout_ref.model.path={tmp_path}")
    assert "no config.json" in check_model(config)[0]


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


def test_run_dir_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    for run_dir in ("file", "file/below"):
        (found,) = machine.run_folder(variant(f"run_dir={tmp_path}/{run_dir}"))
        assert f"{tmp_path}/file is a file" in found


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


def test_45_disk_for_the_kept_checkpoints_and_the_one_being_written(monkeypatch, tmp_path):
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: SimpleNamespace(free=1.6e12))
    config = variant(*BIG, f"run_dir={tmp_path}", "preflight.shared_checkpoints=true")
    assert check_storage(config) == []
    config.trainer.max_actor_ckpt_to_keep = 3
    (found,) = check_storage(config)
    assert "4 checkpoints of 524.2 GB need 2096.9 GB" in found


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


# The loop


def test_loop_without_a_checkpoint_is_refused():
    assert "saves no checkpoint" in check_loop(variant("trainer.save_freq=-1"))[0]
    assert check_loop(variant()) == []


def test_loop_takes_one_file():
    (found,) = check_loop(variant("data.train_files=[a.parquet,b.parquet]"))
    assert "data.train_files=['a.parquet', 'b.parquet']: the loop prepares and evaluates one file" in found


def test_loop_of_a_recipe_without_one():
    assert "loop.data is not set" in check_loop(variant("experiment=qwen2.5_32b"))[0]


# The plan


def test_14_plan_of_the_published_run_in_plain_words():
    config = variant(*BIG)
    text = "\n".join(plan(config, model_facts(config), Data(config)))
    assert "512 prompts x 16 samples = 8,192 samples" in text
    assert "16 a step, each of 32 prompts = 512 samples" in text
    assert "320 rollout steps = 5,120 gradient steps" in text
    assert "assumed" in text


def test_2_and_56_plan_counts_passes_and_validation_tokens(recipe):
    config = recipe("trainer.total_training_steps=20", "trainer.test_freq=10")
    text = "\n".join(plan(config, None, Data(config)))
    assert "640 trained prompts, 16.00 passes over the data at least" in text
    assert "3 times 4 problems x 4 samples, at most 1,024 tokens each time" in text  # 4 x 4 x 64


def test_52_one_update_a_step_is_noted(recipe):
    config = recipe(f"{ACTOR}.ppo_mini_batch_size=32")
    assert any("the ratio is 1 everywhere" in note for note in preflight(config).notes)


def test_56_validation_longer_than_the_steps_between_is_noted(recipe):
    val = [f"v{i}" for i in range(700)]  # 700 x 4 x 64 tokens; 10 steps have 10 x 32 x 8 x 64
    quick, slow = (preflight(recipe(f"trainer.test_freq={freq}", val=val)).notes for freq in (20, 10))
    assert not any("look stuck" in note for note in quick)
    assert any(
        "a validation generates up to 179,200 tokens, the 10 steps between two of them 163,840" in n for n in slow
    )


def test_memory_by_hand():
    config = variant(*BIG)
    facts = model_facts(config)
    found = memory(config, facts, 80)
    # 32.76 B parameters in fp32 over 128 ranks; a replica of 4 GPUs holds them in bf16
    assert found.weights == found.gradients == pytest.approx(32.76 * 4 / 128, rel=1e-3)
    assert found.optimizer == pytest.approx(2 * found.weights)
    assert found.rollout_weights == pytest.approx(32.76 * 2 / 4, rel=1e-3)
    # 64 layers x 2 (key, value) x 2 of 8 heads x 128 x 2 bytes = 65,536 bytes a token and rank
    assert found.kv_tokens == pytest.approx(found.kv_cache * 1e9 / 65_536, rel=1e-4)
    # hidden states 64 x 5120 x 2 bytes, one layer 2 x (8 x 5120 + 4 x 27648), logits 4 x 152064, a token
    assert found.activations == pytest.approx(22_528 * (655_360 + 303_104 + 608_256) / 1e9)
    assert found.resident == 0  # all offloaded
    assert checkpoint_bytes(config, facts) == facts.parameters * 16  # weights, two moments, the exported copy
