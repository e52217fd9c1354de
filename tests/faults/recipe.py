"""The run that faults are done to: the tiny recipe with small batches, a checkpoint a step and every memory on."""

from pathlib import Path

GROUPS, SAMPLES, ROWS, SEED = 8, 2, 400, 1
UPDATES = 1
"""Optimizer steps a training step: one mini-batch of all groups."""
PASSES = 64
"""More than a campaign makes over the data."""
_SAMPLER = "trainer.v1.sampler.sampler_kwargs"


def words(run_dir: Path, steps: int) -> list[str]:
    """Hydra overrides of `recipe.loop` and of `recipe.main_dapo`, the same for every start of a run.

    Few prompts, so that a campaign passes over the data several times; groups of two, of which half are kept, with
    insurance, so that some are left over and carried; a history that remembers every group of more passes than a
    campaign makes and never skips, so that the order of the prompts stays the data's; a low learning rate, since a
    model that is always right would have ever fewer groups kept and make each step longer.
    """
    prepare = ["data_prep.prepare", "arithmetic", f"--out={run_dir}/data", f"--seed={SEED}", "--template=none"]
    prepare += ["--min_value=10", "--max_value=99", f"--train_rows={ROWS}", "--test_rows=32"]
    return [
        "experiment=tiny",
        "technique=dapo",
        "cluster=cpu",
        f"run_dir={run_dir}",
        f"seed={SEED}",
        f"loop.data=[{','.join(repr(word) for word in prepare)}]",
        "loop.evaluation.n=1",
        *batch(GROUPS, SAMPLES),
        f"{_SAMPLER}.surplus=carry_over",
        f"{_SAMPLER}.hedge=4",
        f"{_SAMPLER}.history.enable=true",
        f"{_SAMPLER}.history.keep={PASSES}",
        f"{_SAMPLER}.history.streak={PASSES}",
        "actor_rollout_ref.actor.optim.lr=2e-5",
        f"trainer.total_training_steps={steps}",
        "trainer.save_freq=1",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        "trainer.logger=[file]",
    ]


def batch(groups: int, samples: int) -> list[str]:
    """Overrides of a step of so many groups of so many samples, trained in one update."""
    return [
        f"data.train_batch_size={groups}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={groups}",
        f"actor_rollout_ref.rollout.n={samples}",
    ]
