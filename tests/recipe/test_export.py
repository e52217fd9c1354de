"""Exporting a checkpoint: complete shards or a reason, the newest complete one, and a folder that loads."""

import os

import pytest
import torch
import transformers

from data_prep.tiny_model import build_model, build_tokenizer
from recipe.export import choose, export, first_prompt, main, missing_weights
from tests.recipe.inputs import write_data
from tests.recipe.test_checkpoints import saved as any_shard


def shard(checkpoint, size, rank, content=None):
    (checkpoint / "actor").mkdir(parents=True, exist_ok=True)
    (checkpoint / "actor" / f"model_world_size_{size}_rank_{rank}.pt").write_bytes(content or any_shard())


def described(checkpoint):
    (checkpoint / "actor" / "huggingface").mkdir(parents=True)
    (checkpoint / "actor" / "huggingface" / "config.json").write_text("{}")
    return checkpoint


@pytest.fixture
def checkpoints(tmp_path):
    """A run's checkpoints: step 5 complete, step 10 without the second node's shards, 15 not covered by the tracker."""
    for step, ranks in ((5, range(16)), (10, range(8)), (15, range(16))):
        checkpoint = described(tmp_path / f"global_step_{step}")
        for rank in ranks:
            shard(checkpoint, 16, rank)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("10")
    return tmp_path


def test_shards_of_a_lost_node_are_named(checkpoints):
    (problem,) = missing_weights(checkpoints / "global_step_10")
    assert "8 of 16 shards" in problem
    assert "model_world_size_16_rank_8.pt" in problem


def test_newest_complete_checkpoint_is_chosen(checkpoints):
    assert choose(checkpoints).name == "global_step_5"


def test_incomplete_checkpoint_is_refused_by_the_command(checkpoints, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--checkpoint", str(checkpoints / "global_step_10"), "--out", str(checkpoints / "out")])
    assert ended.value.code == 2
    assert "storage that all of them see" in capsys.readouterr().err


def test_empty_shards_and_mixed_world_sizes_are_incomplete(tmp_path):
    checkpoint = described(tmp_path)
    shard(checkpoint, 2, 0)
    shard(checkpoint, 2, 1, any_shard()[:-1])
    assert "rank_1" in missing_weights(checkpoint)[0]
    shard(checkpoint, 4, 0)
    assert "several world sizes" in missing_weights(checkpoint)[0]


def test_folder_without_weights_is_no_checkpoint(tmp_path):
    assert "config.json" in missing_weights(tmp_path)[0]
    assert "model_world_size" in missing_weights(described(tmp_path))[0]


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of one rank whose weights are there joined too."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    checkpoint = tmp_path / "global_step_1"
    shard(checkpoint, 1, 0)
    model.save_pretrained(checkpoint / "actor" / "huggingface")
    tokenizer.save_pretrained(checkpoint / "actor" / "huggingface")
    return checkpoint, model


def test_export_loads_and_answers(saved, tmp_path, capsys):
    checkpoint, model = saved
    main(["--checkpoint", str(checkpoint), "--out", str(tmp_path / "out")])
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()} == {0o666 & ~mask}
    assert "What is 7 + 5?" in capsys.readouterr().out


def test_the_sample_asks_what_the_run_validates_on(tmp_path):
    checkpoint = tmp_path / "checkpoints" / "global_step_1"
    checkpoint.mkdir(parents=True)
    plain = [{"role": "user", "content": "What is 7 + 5?"}]
    assert first_prompt(checkpoint) == plain
    write_data(tmp_path / "test.parquet", ["7+5=?", "1+1=?"])
    (tmp_path / "config.resolved.yaml").write_text(f"data: {{val_files: [{tmp_path}/test.parquet]}}\n")
    assert first_prompt(checkpoint)[-1]["content"] == "7+5=?"
    (tmp_path / "test.parquet").write_text("damaged")
    assert first_prompt(checkpoint) == plain


def test_other_folders_are_not_overwritten(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(ValueError, match="nothing is overwritten"):
        export(saved[0], tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
