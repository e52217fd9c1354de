"""What every attempt of a run leaves behind about itself."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from recipe import provenance, ray_cluster
from recipe.stamps import ATTEMPTS, RESOLVED_CONFIG, new_attempt, stamp
from tests.recipe.inputs import write_data
from tests.recipe.variants import variant


@pytest.fixture
def start(tmp_path):
    write_data(tmp_path / "d.parquet", ["a", "b"], card={})
    data = [f"data.train_files={tmp_path}/d.parquet", f"data.val_files={tmp_path}/d.parquet"]

    def again(*overrides):
        return stamp(variant(f"run_dir={tmp_path}/run", *data, *overrides), tmp_path / "run", ["the plan"])

    return again


def test_a_stamp_holds_what_the_run_is_made_of(start, tmp_path):
    attempt = start("trainer.total_training_steps=7")
    assert attempt.folder == tmp_path / "run" / ATTEMPTS / "000"
    found = json.loads((attempt.folder / "stamp.json").read_text())
    assert found["commit"][:40] == provenance.commit()[:40]
    assert {"verl", "torch", "pyarrow"} <= set(found["versions"])
    assert found["data"]["train_files"][0]["rows"] == 2
    assert len(found["data"]["train_files"][0]["card_sha256"]) == 64
    assert found["resumed_from"] is None
    assert (attempt.folder / "plan.txt").read_text() == "the plan\n"
    assert yaml.safe_load((attempt.folder / RESOLVED_CONFIG).read_text())["trainer"]["total_training_steps"] == 7


def test_an_attempt_overwrites_nothing_of_the_one_before(start, tmp_path):
    first, second = start("trainer.total_training_steps=7"), start("trainer.total_training_steps=9")
    assert (first.number, second.number) == (0, 1)
    steps = [yaml.safe_load((a.folder / RESOLVED_CONFIG).read_text())["trainer"] for a in (first, second)]
    assert [s["total_training_steps"] for s in steps] == [7, 9]
    latest = yaml.safe_load((tmp_path / "run" / RESOLVED_CONFIG).read_text())
    assert latest["trainer"]["total_training_steps"] == 9


def test_a_clean_tree_leaves_no_diff_of_an_earlier_attempt(start, monkeypatch):
    monkeypatch.setattr(provenance, "git", lambda *arguments: "diff --git a b\n")
    dirty = start()
    monkeypatch.setattr(provenance, "git", lambda *arguments: "")
    clean = start()
    assert (dirty.folder / "dirty.diff").read_text() == "diff --git a b\n"
    assert not (clean.folder / "dirty.diff").exists()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one tracked file that differs from its commit and one under recipe/ that git does not know."""
    root = tmp_path / "checkout"
    (root / "recipe").mkdir(parents=True)
    (root / "tracked.py").write_text("old\n")
    (root / ".gitignore").write_text("*.log\n")
    monkeypatch.setattr(provenance, "_ROOT", root)
    for words in (["init"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-m", "first"]):
        assert provenance.git(*words) is not None
    (root / "tracked.py").write_text("new\n")
    for name in ("recipe/mine.py", "recipe/run.log", "notes.txt"):
        (root / name).touch()
    return root


def test_what_the_code_has_beyond_its_commit(start, checkout):
    attempt = start()
    assert "+new" in (attempt.folder / "dirty.diff").read_text()
    assert json.loads((attempt.folder / "stamp.json").read_text())["untracked"] == ["recipe/mine.py"]


def test_a_job_stamps_the_changes_of_who_submitted_it(start, checkout, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["ray_cluster", "runtime_env", str(checkout)])
    ray_cluster.main()
    shutil.rmtree(checkout / ".git")  # as in the packaged folder
    attempt = start()
    assert "+new" in (attempt.folder / "dirty.diff").read_text()
    assert json.loads((attempt.folder / "stamp.json").read_text())["untracked"] == ["recipe/mine.py"]
    (checkout / provenance.SUBMITTED).unlink()
    attempt = start()
    assert not (attempt.folder / "dirty.diff").exists()
    assert json.loads((attempt.folder / "stamp.json").read_text())["untracked"] is None


def test_starts_at_once_get_numbers_of_their_own(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        numbers = [a.number for a in pool.map(lambda _: new_attempt(tmp_path), range(40))]
    assert sorted(numbers) == list(range(40))


def test_a_number_that_another_start_took_in_between_is_left_to_it(tmp_path, monkeypatch):
    (tmp_path / ATTEMPTS / "000").mkdir(parents=True)
    monkeypatch.setattr(Path, "iterdir", lambda self: iter([]))  # as it was before the other start
    assert new_attempt(tmp_path).number == 1


def test_packaged_folder_takes_the_commit_of_who_submitted_it(monkeypatch):
    monkeypatch.setattr(provenance, "git", lambda *arguments: None)
    assert provenance.commit() == "unknown"
    monkeypatch.setenv("RECIPE_COMMIT", "abc123")
    assert provenance.commit() == "abc123"
