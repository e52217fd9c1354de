"""What every attempt of a run leaves behind about itself."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from recipe import provenance, stamps
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
    monkeypatch.setattr(stamps, "git", lambda *arguments: "diff --git a b\n")
    dirty = start()
    monkeypatch.setattr(stamps, "git", lambda *arguments: "")
    clean = start()
    assert (dirty.folder / "dirty.diff").read_text() == "diff --git a b\n"
    assert not (clean.folder / "dirty.diff").exists()


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
