"""The paper's ladder: each technique is the one before it and one idea more, and says so in its header."""

import itertools
import json
import re
import subprocess
import sys

import pytest

from recipe.compose import CONFIG_DIR
from recipe.diff import differences, load
from recipe.resolved import FOLDER, render, scripts
from tests.recipe.recipes import NAMES, flat, words

LADDER = ["naive_grpo", "overlong_filtering", "clip_higher", "soft_overlong", "token_level_loss", "dapo"]
TECHNIQUES = sorted(path.stem for path in (CONFIG_DIR / "technique").glob("*.yaml"))
FILTERING, SOFT = "overlong_filtering.enable", "reward.reward_kwargs.overlong_buffer_cfg.enable"
HIGH, LOSS = "actor_rollout_ref.actor.clip_ratio_high", "actor_rollout_ref.actor.loss_agg_mode"
SAMPLING = "algorithm.filter_groups.enable"
IDEAS = {
    "overlong_filtering": {FILTERING},
    "clip_higher": {HIGH},
    "soft_overlong": {FILTERING, SOFT},
    "token_level_loss": {LOSS},
    "dapo": {SAMPLING},
}
# What verl or our own settings interpolate from those keys, and the name.
DERIVED = {
    "recipe.technique",
    "critic.loss_agg_mode",  # no critic is trained
    "trainer.v1.sampler.sampler_kwargs.filter.enable",
    "trainer.v1.sampler.sampler_kwargs.filter.mask_truncated",
    "trainer.v1.sampler.sampler_kwargs.reward_is_shaped",
}


def technique(name):
    """Values of the tiny recipe with a technique, without the run's name, which follows the technique's."""
    return json.loads(json.dumps(flat(f"technique={name}", "cluster=cpu")).replace(f"tiny-{name}-seed1", "RUN"))


def test_the_ladder_and_the_releases_are_all_techniques():
    assert set(TECHNIQUES) == {*LADDER, "early", "wo_dynamic_sampling"}


@pytest.mark.parametrize(("below", "above"), list(itertools.pairwise(LADDER)))
def test_a_rung_adds_one_idea(below, above):
    assert set(differences(technique(below), technique(above))) - DERIVED == IDEAS[above]


@pytest.mark.parametrize(
    ("released", "rung"), [("early", "soft_overlong"), ("wo_dynamic_sampling", "token_level_loss")]
)
def test_a_release_is_its_rung(released, rung):
    assert set(differences(technique(released), technique(rung))) <= DERIVED


@pytest.mark.parametrize("name", TECHNIQUES)
def test_header_says_what_is_on(name):
    header = re.search(
        r"^# clip-higher: (\w+), dynamic sampling: (\w+), token-level loss: (\w+), overlong: ([\w ]+)\.$",
        (CONFIG_DIR / "technique" / f"{name}.yaml").read_text(),
        re.MULTILINE,
    )
    config = technique(name)
    overlong = {(False, False): "off", (True, False): "filtering", (False, True): "soft punishment"}
    assert header.groups() == (
        "on" if config[HIGH] == 0.28 else "off",
        "on" if config[SAMPLING] else "off",
        "on" if config[LOSS] == "token-mean" else "off",
        overlong[config[FILTERING], config[SOFT]],
    )


@pytest.mark.parametrize("name", NAMES)
def test_committed_values_are_not_stale(name):
    text = (FOLDER / f"{name}.yaml").read_text()
    assert text == render(name, list(words(name)), flat(*words(name))), "run python -m recipe.resolved"


def test_no_values_are_left_of_a_script_that_is_gone():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(scripts())


def test_diff_names_what_differs_and_nothing_else(tmp_path):
    (tmp_path / "a.yaml").write_text("x: {y: 1, z: [1, 2]}\n")
    (tmp_path / "b.yaml").write_text("x: {y: 1, z: [2, 1]}\nw: null\n")
    command = [sys.executable, "-m", "recipe.diff", tmp_path / "a.yaml", tmp_path / "b.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ['w: "(absent)" -> null', "x.z: [1, 2] -> [2, 1]", "2 keys differ"]


def test_diff_says_what_a_recipe_is():
    with pytest.raises(ValueError, match="dapo_early"):
        load("dapo_qwen2.5_33b")
