"""What the benchmarks read off a run, from a small one made by hand."""

import json
import os

import pytest

from recipe.compose import compose
from recipe.preflight import check_recipe
from tests.benchmarks import growth
from tests.benchmarks.loop import arm, rollout_rate
from tests.benchmarks.sampler import figures, medians, words

STEP_S = {1: 9.0, 2: 2.0, 3: 4.0, 4: 3.0}


@pytest.fixture
def run(tmp_path):
    """Four steps that each train two groups of two; the first is slow, as it is with a cold engine."""
    for name in ("metrics", "rollouts"):
        (tmp_path / name).mkdir()
    with (tmp_path / "metrics" / "000.jsonl").open("w") as f:
        for step, seconds in STEP_S.items():
            data = {"timing_s/step": seconds, "timing_s/gen": seconds / 2, "response_length/mean": 10.0}
            data |= {"sampling/tokens_generated": 60.0, "sampling/generated_groups": 3.0}
            f.write(json.dumps({"step": step, "data": data}) + "\n")
    for step in STEP_S:
        rows = [{"uid": f"u{g}_{s}_0"} for g in range(2) for s in range(2)] + [{"uid": "pad_0_0"}]
        dump = tmp_path / "rollouts" / f"{step}.jsonl"
        dump.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(dump, (1000.0 + step, 1000.0 + step))
    return tmp_path


def test_medians_leave_the_first_step_out(run):
    found = figures(run)
    assert (found["step_s"], found["gen_s"]) == (3.0, 1.5)
    assert found["all_step_s"] == list(STEP_S.values())
    assert found["groups_a_step"] == [2, 2, 2, 2]
    assert medians(run, ["timing_s/step", "timing_s/none"]) == {"timing_s/step": 3.0}


def test_an_arm_counts_what_it_trained_and_when_its_first_step_began(run):
    found = arm(run, began=900.0)
    assert found["samples_per_s"] == round(4 / 3.0, 1)
    assert found["tokens_per_s"] == round(40 / 3.0)
    assert found["seconds_to_first_step"] == 1001.0 - 900.0 - STEP_S[1]


def test_the_rate_of_a_rollout_counts_rejected_groups(run):
    assert rollout_rate(run) == (60 / 1.5, 3)


def test_growth_is_a_table_with_the_lengths_that_were_generated(run):
    first = {"groups": 8} | growth.row(run)
    assert first == {
        "groups": 8,
        "step_s": 3.0,
        "gen_s": 1.5,
        "response_length": 10.0,
        "generated_groups": 3.0,
        "generated_tokens": 60.0,
    }
    lines = growth.table([first, first | {"groups": 16, "step_s": 4.5}]).splitlines()
    assert lines[0].startswith("| groups | step_s |")
    assert lines[0].count("|") == lines[1].count("|") == lines[3].count("|")
    assert lines[3].endswith("| 60 | 1.50 |")


def test_the_series_of_growth_are_recipes(tmp_path):
    base = tmp_path / "base"
    for changed in (growth.more_groups(64), growth.longer_answers(256, tmp_path / "untrained")):
        config = compose([*words(base, tmp_path / "run", 4, 1), *changed])
        assert check_recipe(config) == [] or changed[-1].endswith("=288")
        assert config.data.train_batch_size % config.actor_rollout_ref.actor.ppo_mini_batch_size == 0
    assert config.actor_rollout_ref.model.path == f"{tmp_path}/untrained"
    assert config.actor_rollout_ref.rollout.max_model_len == 32 + config.data.max_response_length
