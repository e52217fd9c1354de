"""The damage is what it says: a file that no longer reads, a clock that is wrong for Python code alone."""

import os
import random
import subprocess
import sys
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.faults import damage


def test_a_corrupted_page_is_within_the_data_and_put_right(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path)
    whole = path.read_bytes()
    for seed in range(20):
        with damage.corrupted_page(path, random.Random(seed)) as how:
            assert sum(a != b for a, b in zip(whole, path.read_bytes(), strict=True)) == 1
            assert pq.read_metadata(path).num_rows == 1000  # the footer is whole
            assert "d.parquet" in how
        assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_a_campaign_that_was_killed_leaves_the_data_to_be_put_right(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path)
    whole = path.read_bytes()
    corrupted = damage.corrupted_page(path, random.Random(0))
    corrupted.__enter__()
    damage.put_right(path)
    damage.put_right(path)
    assert path.read_bytes() == whole


@pytest.fixture
def checkpoints(tmp_path):
    """A folder with a file, on a small disk."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "tracker").write_text("1")
    with damage.small_disk(folder):
        if not os.path.ismount(folder):
            pytest.skip("this user may not mount a tmpfs")
        yield folder
    assert not os.path.ismount(folder)


def too_much(folder):
    """Write what does not fit on a full disk."""
    with pytest.raises(OSError, match="No space left"):
        (folder / "new").write_bytes(bytes(6_000_000))
    (folder / "new").unlink()


def test_a_full_disk_stays_full_when_something_is_deleted(checkpoints):
    (checkpoints / "old").write_bytes(bytes(20_000_000))
    with damage.full_disk(checkpoints, psutil.Process()):
        too_much(checkpoints)
        (checkpoints / "old").unlink()
        time.sleep(0.3)
        too_much(checkpoints)
    (checkpoints / "new").write_bytes(bytes(6_000_000))


def test_what_lies_on_the_small_disk_outlives_it(checkpoints):
    assert (checkpoints / "tracker").read_text() == "1"
    (checkpoints / "global_step_2").mkdir()
    (checkpoints / "global_step_2" / "data.pt").write_text("data")
    (checkpoints / damage.FILLER).write_bytes(bytes(1000))  # the campaign was killed over it
    for _ in range(2):
        damage.put_back(checkpoints)
        assert not os.path.ismount(checkpoints)
        assert sorted(path.name for path in checkpoints.iterdir()) == ["global_step_2", "tracker"]
        assert (checkpoints / "global_step_2" / "data.pt").read_text() == "data"
        assert list(checkpoints.parent.iterdir()) == [checkpoints]


def test_a_truncated_checkpoint_has_one_file_that_does_not_load(tmp_path):
    folder = tmp_path / "global_step_3"
    (folder / "actor").mkdir(parents=True)
    torch.save({"a": torch.zeros(100)}, folder / "actor" / "model_world_size_1_rank_0.pt")
    how = damage.truncate_checkpoint(folder, random.Random(1))
    assert how.startswith("global_step_3/actor/model")
    with pytest.raises(Exception, match=r".+"):
        torch.load(folder / "actor" / "model_world_size_1_rank_0.pt", weights_only=False)


def test_python_reads_the_clock_that_was_set(tmp_path):
    code = "import time; print(time.time()); input(); time.sleep(0.3); print(time.time())"
    environment = {**os.environ, **damage.clock_environment(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True, env=environment)
    assert child.stdout is not None
    before = float(child.stdout.readline())
    damage.set_clock(tmp_path, -86400)
    after, _ = child.communicate("\n", timeout=30)
    assert damage.saw_clock(tmp_path) == {child.pid}
    assert abs(before - time.time()) < 30
    assert abs(float(after) + 86400 - time.time()) < 30


def test_a_missing_rollout_is_one_of_the_dumps(tmp_path):
    (tmp_path / "rollouts").mkdir()
    for step in (1, 2):
        (tmp_path / "rollouts" / f"{step}.jsonl").touch()
    (tmp_path / "examples").mkdir()
    gone = damage.remove_rollout(tmp_path, random.Random(0))
    assert not (tmp_path / gone.split()[0]).exists()
    assert [path.parent.name for path in tmp_path.rglob("*.jsonl")] == ["rollouts"]
    assert not (tmp_path / "examples").exists()
