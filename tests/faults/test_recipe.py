"""The runs that faults are done to pass the recipe's own checks."""

from pathlib import Path

from recipe.compose import compose
from recipe.preflight import check_loop, check_recipe
from tests.faults import long_run, recipe
from tests.faults.scratch import Scratch


def test_the_campaigns_run_is_a_recipe_that_the_loop_takes(tmp_path):
    config = compose(recipe.words(tmp_path / "run", 1_000_000))
    assert check_recipe(config) + check_loop(config) == []
    assert config.data.train_batch_size == recipe.GROUPS
    history = config.trainer.v1.sampler.sampler_kwargs.history
    assert history.streak == history.keep == recipe.PASSES
    assert config.loop.data[2] == f"--out={tmp_path}/run/data"


def test_the_long_run_does_not_learn(tmp_path):
    config = compose(long_run.words(Scratch(tmp_path, "long"), 500))
    assert check_recipe(config) == []
    assert config.actor_rollout_ref.actor.optim.lr < 1e-8
    assert config.trainer.total_training_steps == 500
    assert Path(config.run_dir) == tmp_path / "long"
