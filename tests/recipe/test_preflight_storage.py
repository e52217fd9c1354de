"""Rules on checkpoints and their disks."""

from types import SimpleNamespace

from recipe.checkpoints import TRACKER_FILE
from recipe.preflight import (
    check_inputs,
    check_storage,
    preflight,
    storage,
)
from tests.recipe.inputs import write_model
from tests.recipe.test_checkpoints import make
from tests.recipe.variants import BIG, variant


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
    (found,) = [problem for problem in check_inputs(config) if "no checkpoint" in problem]
    assert "no checkpoint that is complete for 1 ranks" in found
    assert "export the model" in found
