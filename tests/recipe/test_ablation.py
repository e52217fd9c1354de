"""The ladder's plan and its table; the runs themselves are the loop's."""

import json
import math
import sys

import pytest

from recipe.ablation.__main__ import arguments, rung_words, write_table
from recipe.ablation.ladder import PAPER, plan
from recipe.ablation.table import estimate, markdown, rows
from recipe.compose import CONFIG_DIR, compose


@pytest.mark.parametrize(
    "line",
    [
        "--out o --seeds 1 2 3 --rungs naive_grpo dapo -- seed=1 a.b=2",  # as the module documents it
        "seed=1 --out o --seeds 1 2 3 --rungs naive_grpo dapo -- a.b=2",  # as scripts/ablation_cpu.sh has it
    ],
)
def test_documented_command_lines_are_understood(monkeypatch, line):
    monkeypatch.setattr(sys, "argv", ["recipe.ablation", *line.split()])
    found = arguments()
    assert (str(found.out), found.seeds, found.rungs) == ("o", [1, 2, 3], ["naive_grpo", "dapo"])
    assert found.words == ["seed=1", "a.b=2"]


def test_every_rung_is_a_technique_in_the_paper_s_order():
    assert list(PAPER.values()) == sorted(PAPER.values())
    assert all((CONFIG_DIR / "technique" / f"{name}.yaml").is_file() for name in PAPER)


def test_a_whole_ladder_comes_before_the_next_seed(tmp_path):
    runs = plan(tmp_path, [2, 1], ["dapo", "naive_grpo"])
    assert [(r.seed, r.technique) for r in runs] == [(2, "naive_grpo"), (2, "dapo"), (1, "naive_grpo"), (1, "dapo")]
    assert {r.base for r in runs} == {tmp_path / "seed1/base", tmp_path / "seed2/base"}


@pytest.mark.parametrize(("seeds", "rungs"), [([1, 1], ["dapo"]), ([], ["dapo"]), ([1], ["dapo", "early"])])
def test_wrong_plans_are_refused(tmp_path, seeds, rungs):
    with pytest.raises(ValueError, match=r"--(seeds|rungs)"):
        plan(tmp_path, seeds, rungs)


def test_a_rung_trains_its_technique_on_its_seed_s_base(tmp_path):
    (rung,) = plan(tmp_path / "it's here", [3], ["clip_higher"])
    config = compose(["experiment=ablation_cpu", "cluster=cpu", *rung_words(rung)])
    assert (config.recipe.technique, config.seed, config.run_dir) == ("clip_higher", 3, str(rung.folder))
    assert config.actor_rollout_ref.model.path == str(rung.base / "base_model")
    assert config.data.train_files == str(rung.base / "data/train.parquet")
    assert config.loop.base_model is None


def test_interval_is_student_s_t():
    found = estimate([0.1, 0.2, 0.3])
    assert found.mean == pytest.approx(0.2)
    assert found.high - found.mean == pytest.approx(4.303 * 0.1 / math.sqrt(3))
    assert estimate([0.5]).low is None


def test_steps_compare_the_seeds_that_both_rungs_have():
    found = rows({"naive_grpo": {1: 0.5, 2: 0.6}, "overlong_filtering": {1: 0.6, 2: 0.7, 3: 0.1}, "dapo": {1: 0.9}})
    assert [row.technique for row in found] == ["naive_grpo", "overlong_filtering", "dapo"]
    assert found[1].step.mean == pytest.approx(0.1)
    assert found[1].step.seeds == 2
    assert found[2].step is None  # the rung below it was not run
    assert (found[2].paper, found[2].paper_step) == (50, 8)


@pytest.mark.parametrize(
    ("above", "direction"),
    [
        ({1: 0.60, 2: 0.61, 3: 0.62}, "as in the paper"),
        ({1: 0.40, 2: 0.41, 3: 0.42}, "the other way"),
        ({1: 0.30, 2: 0.80, 3: 0.60}, "cannot be told"),
        ({1: 0.6}, "up, one seed"),
    ],
)
def test_direction_is_said_as_far_as_the_interval_tells(above, direction):
    found = rows({"naive_grpo": {1: 0.50, 2: 0.51, 3: 0.52}, "overlong_filtering": above})
    assert found[1].direction == direction
    assert f"| {direction} |" in markdown(found, "caption")


def test_table_holds_the_runs_that_are_done(tmp_path):
    runs = plan(tmp_path, [1, 2], ["naive_grpo", "overlong_filtering"])
    for run, accuracy in zip(runs[:3], (0.5, 0.6, 0.7), strict=True):
        run.folder.mkdir(parents=True)
        summary = {"accuracy_after": {"mean": accuracy}, "commit": "abc", "steps": 30}
        (run.folder / "summary.json").write_text(json.dumps(summary))
    text = write_table(tmp_path, runs, ["experiment=ablation_cpu"])
    assert text == (tmp_path / "table.md").read_text()
    assert (
        "`python -m recipe.ablation --seeds 1 2 --rungs naive_grpo overlong_filtering -- experiment=ablation_cpu`"
        in text
    )
    assert "30 steps; commit abc." in text
    content = json.loads((tmp_path / "table.json").read_text())
    assert content["accuracies"] == {"naive_grpo": {"1": 0.5, "2": 0.7}, "overlong_filtering": {"1": 0.6}}
