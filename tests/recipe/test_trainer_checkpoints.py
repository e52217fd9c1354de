"""verl's own saving code under our trainer, with worker groups that write the files of one rank."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from recipe.checkpoints import latest_complete, read_state
from recipe.trainer import DAPOTrainer
from tests.recipe.inputs import write_data, write_model
from tests.recipe.test_checkpoints import write_shards
from tests.recipe.variants import variant


class Workers:
    """One actor rank. `complete` is what could be resumed from while it was writing."""

    def __init__(self, root):
        self.root, self.complete, self.keep, self.broken = root, [], [], False

    def save_checkpoint(self, local_path, remote_path, step, max_ckpt_to_keep):
        self.keep.append(max_ckpt_to_keep)
        self.complete.append(found.name if (found := latest_complete(self.root, 1)) else None)
        if self.broken:
            raise OSError("disk full")
        write_shards(local_path)


@pytest.fixture
def trainer(tmp_path):
    """A trainer as far as checkpoints know it, with a checkpoint folder of its own."""
    write_data(tmp_path / "d.parquet", [f"p{i}" for i in range(40)], card={})
    write_model(tmp_path / "model")
    data = f"data.train_files={tmp_path}/d.parquet"
    config = variant(f"run_dir={tmp_path}", data, f"actor_rollout_ref.model.path={tmp_path}/model")
    OmegaConf.resolve(config)

    def make():
        made = DAPOTrainer(OmegaConf.create(OmegaConf.to_container(config)))
        made.actor_rollout_wg = Workers(tmp_path / "checkpoints")
        made.train_dataloader = SimpleNamespace(state_dict=lambda: {"position": 1})
        return made

    return make


def save(trainer, *steps):
    for step in steps:
        trainer.global_steps = step
        trainer._save_checkpoint()


def names(tmp_path):
    return sorted(p.name for p in (tmp_path / "checkpoints").glob("global_step_*"))


def test_the_oldest_goes_only_when_the_new_one_is_complete(trainer, tmp_path):
    made = trainer()
    save(made, 1, 2, 3)
    assert names(tmp_path) == ["global_step_2", "global_step_3"]
    assert made.actor_rollout_wg.keep == [None, None, None]  # verl itself deletes nothing
    assert made.actor_rollout_wg.complete == [None, "global_step_1", "global_step_2"]


def test_a_save_that_fails_costs_no_checkpoint(trainer, tmp_path):
    made = trainer()
    save(made, 1, 2)
    made.actor_rollout_wg.broken = True
    with pytest.raises(OSError, match="disk full"):
        save(made, 3)
    assert latest_complete(tmp_path / "checkpoints", 1).name == "global_step_2"
    assert "global_step_1" in names(tmp_path)


def test_rotation_counts_what_an_earlier_process_left(trainer, tmp_path):
    save(trainer(), 1, 2)
    save(trainer(), 3)
    assert names(tmp_path) == ["global_step_2", "global_step_3"]


def test_a_checkpoint_says_what_it_was_trained_on(trainer, tmp_path):
    save(trainer(), 1)
    run = read_state(tmp_path / "checkpoints" / "global_step_1")["run"]
    assert run["config"]["actor_rollout_ref.actor.clip_ratio_high"] == 0.28
    assert run["data"][0]["rows"] == 40
    assert len(run["data"][0]["card_sha256"]) == 64


def test_trainer_refuses_other_data_on_its_own(trainer, tmp_path):
    save(trainer(), 1)
    write_data(tmp_path / "d.parquet", [f"q{i}" for i in range(40)], card={})
    with pytest.raises(ValueError, match="would skip or repeat data"):
        trainer()._load_checkpoint()
