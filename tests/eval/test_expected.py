"""Expected ranges: the closed form by hand, healthy and sick runs, the command line."""

import json
import math

import pytest

from eval.expected import CURVES, FOLDER, main, outside, ranges
from eval.report.read import read_run
from tests.eval.runs import make_run

ENTROPY, REWARD, ACCURACY = (CURVES[name] for name in ("entropy", "reward", "accuracy"))


def test_a_range_is_the_prediction_interval_of_one_more_seed():
    runs = [{step: {REWARD: value} for step in (1, 2, 3)} for value in (1.0, 2.0, 3.0)]  # s = 1 at every step
    half = 4.303 * math.sqrt(1 + 1 / 3)
    assert ranges(runs)["reward"][2] == pytest.approx((2 - half, 2 + half))


def test_a_range_keeps_to_what_a_metric_can_be():
    assert ranges([{1: {ACCURACY: 0.9, ENTROPY: 0.1}}, {1: {ACCURACY: 1.0, ENTROPY: 0.2}}])["accuracy"][1][1] == 1.0
    assert ranges([{1: {ENTROPY: 0.1}}, {1: {ENTROPY: 0.2}}])["entropy"][1][0] == 0.0


def test_the_spread_is_pooled_over_the_neighbours_and_no_further():
    spread = {step: {REWARD: 0.0} for step in range(1, 10)}
    other = {step: {REWARD: float(step == 1)} for step in range(1, 10)}
    widths = {step: high - low for step, (low, high) in ranges([spread, other])["reward"].items()}
    assert [step for step, width in widths.items() if width > 0] == [1, 2, 3]
    assert widths[1] == pytest.approx(2 * 12.706 * math.sqrt(0.5 / 3 * 1.5))


def test_one_run_has_no_spread():
    with pytest.raises(ValueError, match="at least two"):
        ranges([{1: {ENTROPY: 0.3}}])


def test_steps_and_curves_that_a_run_has_not_logged_are_not_judged():
    expected = {"entropy": {1: (0.0, 1.0), 2: (0.0, 1.0), 3: (0.0, 1.0)}, "reward": {1: (0.0, 1.0)}}
    steps = {1: {ENTROPY: 0.5}, 2: {ENTROPY: 1.5}}
    assert outside(steps, expected) == {"entropy": ([2], 2), "reward": ([], 0)}


def recorded(folder, capsys, *words):
    status = 0
    try:
        main([str(folder), *map(str, words)])
    except SystemExit as ended:
        status = ended.code
    return status, capsys.readouterr()


@pytest.fixture
def tiny(tmp_path):
    """A run of the recipe whose ranges are in the repository, every curve in the middle of them but those changed."""
    stored = json.loads((FOLDER / "tiny-dapo.json").read_text())

    def make(**changed):
        def change(step, data):
            middle = {CURVES[name]: sum(by[str(step)]) / 2 for name, by in stored["ranges"].items()}
            return data | middle | {CURVES[name]: value for name, value in changed.items()}

        words = [("recipe.experiment", "tiny"), ("recipe.technique", "dapo")]
        return make_run(tmp_path / "run", config=words, change=change)

    return make


def test_a_run_like_the_recorded_ones_is_within_range(tiny, capsys):
    status, said = recorded(tiny(), capsys)
    assert status == 0
    assert said.out.count("20 of 20 steps within range\n") == len(CURVES)


def test_a_model_that_no_longer_explores_is_seen(tiny, capsys):
    _, said = recorded(tiny(entropy=3.0), capsys)
    assert "entropy          0 of 20 steps within range; last outside at step 20: 3.000, expected" in said.out


def test_a_recipe_that_nobody_recorded_is_named(tmp_path, capsys):
    status, said = recorded(make_run(tmp_path / "run", config=[("recipe.experiment", "mine")]), capsys)
    assert status == 2
    assert "no ranges of mine-None are recorded (there are: tiny-dapo" in said.err


def test_only_runs_of_one_recipe_are_recorded_together(tmp_path, capsys):
    names = [("recipe.experiment", name) for name in ("mine", "yours")]
    one, other = (make_run(tmp_path / name[1], config=[name]) for name in names)
    status, said = recorded(one, capsys, other, "--record", tmp_path / "x.json")
    assert status == 2
    assert "several recipes: mine-None, yours-None" in said.err
    assert not (tmp_path / "x.json").exists()


def test_recorded_ranges_hold_the_runs_that_they_are_of(tmp_path, capsys):
    runs = [
        make_run(tmp_path / name, change=lambda step, data, by=by: data | {ENTROPY: by * step})
        for name, by in (("a", 0.01), ("b", 0.012))
    ]
    assert recorded(runs[0], capsys, runs[1], "--record", tmp_path / "x.json")[0] == 0
    stored = json.loads((tmp_path / "x.json").read_text())
    expected = {name: {int(s): tuple(pair) for s, pair in by.items()} for name, by in stored["ranges"].items()}
    assert outside(read_run(runs[1]).steps, expected)["entropy"] == ([], 20)
