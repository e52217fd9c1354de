"""Rules on the data files."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recipe.preflight import (
    check_inputs,
    check_model,
    preflight,
)
from recipe.preflight.data import Data
from tests.recipe.inputs import write_data, write_model
from tests.recipe.variants import ROLLOUT, SAMPLER, variant


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


def test_a_folder_is_no_data_file(tmp_path):
    found = check_inputs(variant(f"run_dir={tmp_path}", f"data.train_files={tmp_path}"))
    assert found[0].startswith(f"data.train_files={tmp_path} is a folder")


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
