import json

import pytest

from recipe.metrics_log import read_steps, validation_accuracy


def write(folder, name, entries, tail=""):
    folder.mkdir(exist_ok=True)
    lines = "".join(json.dumps({"step": step, "data": data}) + "\n" for step, data in entries)
    (folder / name).write_text(lines + tail)


def test_later_attempt_wins_from_its_first_step_on(tmp_path):
    write(tmp_path, "000.jsonl", [(0, {"v": 0.0}), (1, {"a": 1.0}), (2, {"a": 2.0}), (3, {"a": 3.0}), (4, {"a": 4.0})])
    write(tmp_path, "001.jsonl", [(2, {"v": 0.5}), (3, {"a": 30.0})])  # resumed from step 2, which it validates
    assert read_steps(tmp_path) == {0: {"v": 0.0}, 1: {"a": 1.0}, 2: {"a": 2.0, "v": 0.5}, 3: {"a": 30.0}}


def test_attempt_that_logged_nothing_changes_nothing(tmp_path):
    write(tmp_path, "000.jsonl", [(1, {"a": 1.0})])
    write(tmp_path, "001.jsonl", [])
    assert read_steps(tmp_path) == {1: {"a": 1.0}}


def test_torn_last_line_and_values_that_are_no_number_are_left_out(tmp_path):
    write(tmp_path, "000.jsonl", [(1, {"a": 1, "b": None, "c": True, "d": "x"})], tail='{"step": 2, "da')
    assert read_steps(tmp_path) == {1: {"a": 1.0}}


def test_damaged_line_in_the_middle_is_named(tmp_path):
    write(tmp_path, "000.jsonl", [(1, {})])
    with (tmp_path / "000.jsonl").open("a") as f:
        f.write('oops\n{"step": 3, "data": {}}\n')
    with pytest.raises(ValueError, match=r"000\.jsonl:2 "):
        read_steps(tmp_path)


def test_no_folder_is_no_steps(tmp_path):
    assert read_steps(tmp_path / "metrics") == {}


def test_validation_accuracy_is_the_mean_over_data_sets():
    data = {"val-core/a/acc/mean@4": 0.5, "val-core/b/acc/mean@4": 0.7, "val-core/a/acc/best@4/mean": 1.0}
    assert validation_accuracy(data) == pytest.approx(0.6)
    assert validation_accuracy({"actor/entropy": 1.0}) is None
