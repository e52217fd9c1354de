import errno
import io
import os
import zipfile
from pathlib import Path

import pytest
import torch

from recipe.checkpoints import (
    CARRIED_FILE,
    STATE_FILE,
    TRACKER_FILE,
    latest_complete,
    missing_parts,
    read_state,
    rotate,
    set_aside,
    steps,
    write_state,
)


def saved():
    """The form of what `torch.save` writes, without its content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    return buffer.getvalue()


def write_shards(actor, world_size=1):
    """What verl's workers write of a checkpoint, nearly empty shards."""
    (Path(actor) / "huggingface").mkdir(parents=True)
    for kind in ("model", "optim", "extra_state"):
        for rank in range(world_size):
            (Path(actor) / f"{kind}_world_size_{world_size}_rank_{rank}.pt").write_bytes(saved())
    (Path(actor) / "huggingface" / "config.json").write_text("{}")


def make(root, step, world_size=1):
    folder = root / f"global_step_{step}"
    write_shards(folder / "actor", world_size)
    (folder / "data.pt").write_bytes(saved())
    write_state(folder, {"step": step})
    (root / TRACKER_FILE).write_text(str(step))
    return folder


def test_no_tracker_means_a_fresh_start(tmp_path):
    assert latest_complete(tmp_path, 1) is None


def test_newest_complete_checkpoint_by_number_not_by_name(tmp_path):
    for step in (8, 9, 10):
        make(tmp_path, step)
    assert latest_complete(tmp_path, 1).name == "global_step_10"


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.999])
@pytest.mark.parametrize(
    "name", ["actor/optim_world_size_1_rank_0.pt", "actor/huggingface/config.json", "data.pt", STATE_FILE, CARRIED_FILE]
)
def test_truncated_newest_checkpoint_falls_back_to_the_one_before(tmp_path, name, kept):
    for step in (1, 2):
        newest = make(tmp_path, step)
        torch.save({"weights": torch.arange(100_000)}, newest / "actor" / "optim_world_size_1_rank_0.pt")
        torch.save({"groups": torch.arange(1000)}, newest / CARRIED_FILE)
    assert latest_complete(tmp_path, 1) == newest
    content = (newest / name).read_bytes()
    (newest / name).write_bytes(content[: min(int(kept * len(content)), len(content) - 2)])
    assert missing_parts(newest, 1) == [name]
    assert latest_complete(tmp_path, 1).name == "global_step_1"


def test_checkpoint_after_the_tracker_was_being_written_and_does_not_count(tmp_path):
    make(tmp_path, 1)
    make(tmp_path, 2)
    (tmp_path / TRACKER_FILE).write_text("1")
    assert latest_complete(tmp_path, 1).name == "global_step_1"


def test_other_world_size_is_an_error_that_says_what_to_do(tmp_path):
    make(tmp_path, 4, world_size=2)
    with pytest.raises(ValueError, match=r"complete for 1 ranks.*export"):
        latest_complete(tmp_path, 1)


def test_half_of_the_shards_is_not_a_checkpoint(tmp_path):
    folder = make(tmp_path, 4, world_size=4)
    for rank in (2, 3):
        (folder / "actor" / f"model_world_size_4_rank_{rank}.pt").unlink()
    assert missing_parts(folder, 4) == [f"actor/model_world_size_4_rank_{rank}.pt" for rank in (2, 3)]


def test_state_of_a_foreign_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match=STATE_FILE):
        read_state(tmp_path)


def test_rotation_keeps_the_newest_complete_ones(tmp_path):
    for step in (1, 2, 3, 4):
        make(tmp_path, step)
    assert [p.name for p in rotate(tmp_path, 2, ranks=1)] == ["global_step_2", "global_step_1"]
    assert [p.name for p in steps(tmp_path)] == ["global_step_4", "global_step_3"]


def test_rotation_deletes_nothing_while_the_new_one_is_incomplete(tmp_path):
    for step in (1, 2, 3):
        folder = make(tmp_path, step)
    (folder / "data.pt").unlink()
    assert rotate(tmp_path, 2, ranks=1) == []
    assert rotate(tmp_path, 1, ranks=1) == [tmp_path / "global_step_1"]
    assert latest_complete(tmp_path, 1).name == "global_step_2"


def test_rotation_does_not_touch_what_the_tracker_does_not_cover(tmp_path):
    for step in (4, 5, 6, 1, 2, 3):  # a run that went back to its start: the tracker says 3
        make(tmp_path, step)
    rotate(tmp_path, 1, ranks=1)
    assert sorted(p.name for p in tmp_path.glob("global_step_*")) == [f"global_step_{n}" for n in (3, 4, 5, 6)]


def test_a_checkpoint_that_cannot_be_deleted_ends_nothing_and_is_tried_again(tmp_path, monkeypatch, caplog):
    for step in (1, 2, 3):
        make(tmp_path, step)
    remove = os.rmdir

    def busy(path, **where):
        if str(path).endswith("global_step_1"):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", ".nfs0001")
        remove(path, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", busy)
        assert [p.name for p in rotate(tmp_path, 1, ranks=1)] == ["global_step_2"]
    assert "global_step_1 could not be deleted" in caplog.text
    assert (tmp_path / "global_step_1").is_dir()
    assert [p.name for p in rotate(tmp_path, 1, ranks=1)] == ["global_step_1"]
    assert latest_complete(tmp_path, 1).name == "global_step_3"


@pytest.mark.parametrize("keep", [None, 0, 3])
def test_rotation_that_has_nothing_to_do(tmp_path, keep):
    for step in (1, 2, 3):
        make(tmp_path, step)
    assert rotate(tmp_path, keep, ranks=1) == []


def test_tracker_cut_short_while_it_was_written(tmp_path):
    make(tmp_path, 1)
    make(tmp_path, 2)
    (tmp_path / TRACKER_FILE).write_text("")
    assert latest_complete(tmp_path, 1).name == "global_step_2"


def test_what_a_start_went_back_behind_is_never_the_newest_again(tmp_path):
    for step in (10, 20, 30):
        make(tmp_path, step)
    (tmp_path / "abandoned_global_step_30").mkdir()
    renamed = set_aside(tmp_path, 10)
    assert [path.name for path in renamed] == ["abandoned_global_step_20", "abandoned_global_step_30.1"]
    assert latest_complete(tmp_path, 1).name == "global_step_10"
    assert all(not missing_parts(path, 1) for path in renamed)
