"""What the long run samples and what it takes as left behind, on processes and folders of this test."""

import mmap
import os
from collections import defaultdict
from types import SimpleNamespace

import psutil
import pytest

from tests.faults import long_run, scratch


@pytest.fixture
def folders(tmp_path, monkeypatch):
    shm, tmp = tmp_path / "shm", tmp_path / "tmp"
    for folder in (shm, tmp, tmp / "ray"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(long_run, "_SHM", shm)
    monkeypatch.setattr(long_run, "_TMP", tmp)
    return shm, tmp


def nothing() -> dict[str, dict[str, list[float]]]:
    return defaultdict(lambda: defaultdict(list))


def sample(found, processes, before=frozenset()):
    long_run._sample(SimpleNamespace(alive=lambda: processes), set(before), found)  # type: ignore[arg-type]


def test_a_sample_has_shared_memory_and_all_together(folders):
    shm, _ = folders
    (shm / "old").write_bytes(b"x" * 2**20)
    before, found = long_run.owned(shm), nothing()
    this, parent = psutil.Process(), psutil.Process(os.getppid())
    sample(found, [this], before)
    (shm / "new").write_bytes(b"x" * 4 * 2**20)
    with mmap.mmap(-1, 16 * 2**20) as shared:
        shared.write(b"x" * len(shared))
        sample(found, [this, parent], before)
    everything = found.pop("all")
    assert everything["processes"] == [1, 2]
    assert everything["segments"] == [0, 1]
    assert everything["segments_mb"] == pytest.approx([0, 4], abs=0.1)
    (mine,) = (values for name, values in found.items() if name.endswith(f" {this.pid}"))
    assert mine["shared_mb"][1] - mine["shared_mb"][0] == pytest.approx(16, abs=1)
    assert {len(values) for values in mine.values()} == {2}
    assert everything["memory_mb"][1] == pytest.approx(sum(values["memory_mb"][-1] for values in found.values()))


def test_a_process_that_has_ended_is_not_counted(folders):
    with psutil.Popen(["true"]) as child:
        child.wait()
    found = nothing()
    sample(found, [child])
    assert list(found) == ["all"]
    assert found["all"]["processes"] == found["all"]["memory_mb"] == [0]


def test_only_what_this_user_has_is_left_behind(folders, monkeypatch):
    shm, tmp = folders
    (shm / "psm_1").touch()
    (tmp / "ray" / "session_1").mkdir()
    assert long_run.owned(shm) == {shm / "psm_1"}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert long_run.owned(shm) == long_run.in_tmp() == set()


def test_other_programs_files_in_tmp_are_theirs(folders):
    _, tmp = folders
    ours = ["torchinductor_me", "vllm-1.sock", "verl_cache", "TransferQueue", "ray/session_1", "my_ray"]
    for name in [*ours, "tmp1rvlk", "array", "pytest-of-me", "f-abc", "dapo-1-x"]:
        (tmp / name).mkdir()
    assert long_run.in_tmp() == {tmp / name for name in [*ours, "ray"]}


def test_no_such_folder_is_empty(tmp_path):
    assert long_run.owned(tmp_path / "none") == set()


def test_a_run_names_what_is_left_outside_its_folder(folders, tmp_path, monkeypatch):
    shm, tmp = folders
    (shm / "old").touch()
    (tmp / "vllm-old").touch()

    class Run:
        """Of no process; leaves a segment, a session of Ray and something of another program."""

        def __init__(self, *_):
            for path in (shm / "psm_1", tmp / "ray" / "session_1", tmp / "other"):
                path.touch()

        child = SimpleNamespace(poll=lambda: 0)
        wait = staticmethod(lambda *_: False)
        kill = staticmethod(lambda: None)

        def orphans(self, _) -> list[str]:
            return []

    monkeypatch.setattr(long_run, "Start", Run)
    monkeypatch.setattr(scratch.sampler, "make_base", lambda *_: None)
    result = long_run.run(tmp_path / "runs", 5)
    assert result["left"] == [str(shm / "psm_1"), str(tmp / "ray" / "session_1")]
    assert result["problems"][0].startswith("too few samples to judge")
    assert f"left behind: {result['left']}" in result["problems"]
