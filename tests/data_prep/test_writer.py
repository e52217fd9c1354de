"""Writing: all files or none, whatever goes wrong on the way."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data_prep import writer
from data_prep.errors import DataError
from data_prep.writer import RowWriter, atomic_files
from tests.data_prep.conftest import write_jsonl, zhuzilin

ROOT = Path(__file__).parents[2]


@pytest.fixture
def earlier(run, out, tmp_path):
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(5))
    assert run("dapo_math_17k_jsonl", "--input", source) == 0
    return {path.name: path.read_bytes() for path in out.iterdir()}


def now(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyarrow closes once more, in vain
@pytest.mark.parametrize("step", ["spool", "rows", "card", "sync"])
def test_a_write_that_fails_leaves_the_earlier_files(step, earlier, fails, out, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    target = {
        "spool": (pq.ParquetWriter, "write_table"),
        "rows": (pq.ParquetWriter, "close"),
        "card": (Path, "write_text"),
        "sync": (os, "fsync"),
    }[step]
    source = write_jsonl(tmp_path / "b.jsonl", zhuzilin(9))
    monkeypatch.setattr(*target, full)
    said = fails("dapo_math_17k_jsonl", "--input", source)
    assert "No space left on device" in said
    assert str(out / "dapo-math-17k.") in said
    assert now(out) == earlier


def test_a_full_disk_by_quota(earlier, out, tmp_path):
    """The kernel refuses to let a file grow beyond 20 kB, as a quota would."""
    source = write_jsonl(tmp_path / "b.jsonl", zhuzilin(20_000))
    command = [sys.executable, "-m", "data_prep.prepare", "dapo_math_17k_jsonl", "--input", source, "--out", out]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # noqa: E731
    done = subprocess.run(command, cwd=ROOT, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert f"file {out / 'dapo-math-17k.parquet'}: cannot be written" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert now(out) == earlier


def test_an_interrupt_leaves_the_earlier_files(earlier, run, out, tmp_path, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("dapo_math_17k_jsonl", "--input", write_jsonl(tmp_path / "b.jsonl", zhuzilin(9)))
    assert now(out) == earlier


def test_an_output_that_is_a_directory_is_named(fails, out, tmp_path):
    (out / "dapo-math-17k.parquet").mkdir(parents=True)
    source = write_jsonl(tmp_path / "a.jsonl", zhuzilin(3))
    assert "dapo-math-17k.parquet: is a directory" in fails("dapo_math_17k_jsonl", "--input", source)


def test_files_are_synced_before_they_are_renamed(out, monkeypatch):
    calls = []
    monkeypatch.setattr(writer, "_sync", lambda path: calls.append(("sync", path.name)))
    monkeypatch.setattr(writer.os, "replace", lambda old, new: calls.append(("rename", new.name)))
    with atomic_files() as files:
        files.text(out / "a.txt", "x")
        files.text(out / "b.txt", "y")
        files.commit()
    assert [kind for kind, _ in calls] == ["sync", "sync", "rename", "rename", "sync"]


def test_a_row_out_of_the_schema_is_refused_with_its_number(out):
    row = {
        "data_source": "s",
        "prompt": [{"content": "Q?", "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": "1", "style": "rule"},
        "extra_info": {
            "index": 0,
            "raw_problem": "Q?",
            "source_index": 0,
            "split": "train",
            "prompt_tokens": None,
            "solution": None,
        },
    }
    bad = {
        "reward_model.ground_truth": {**row, "reward_model": {"ground_truth": 1, "style": "rule"}},
        "prompt": {**row, "prompt": [{"content": "Q?", "role": "robot"}]},
        "prompt.content": {**row, "prompt": [{"content": "", "role": "user"}]},
        "extra_info.index": {**row, "extra_info": {**row["extra_info"], "index": "0"}},
        "extra_info.prompt_tokens": {**row, "extra_info": {**row["extra_info"], "prompt_tokens": -1}},
    }
    for column, broken in bad.items():
        with atomic_files() as files:
            rows = RowWriter(files.reserve(out / "a.parquet"), out / "a.parquet")
            with pytest.raises(DataError, match=rf"a.parquet, row 1, column '{column}'"):
                rows.write([row, broken])
    assert not list(out.iterdir())
