"""Plain validation means against verl's own figures for the same samples."""

import pytest

from recipe.validation_metrics import complete, means, split

SOURCES = ["aime"] * 4 + ["gsm8k"] * 2
UIDS = ["a", "a", "b", "b", "c", "c"]
VALUES = {
    "acc": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0],
    "pred": ["1", "2", "3", "3", "", ""],
    "length": [10.0, 30.0, 5.0, 7.0, 1.0, None],
    "reason": ["x"] * 6,
}


def test_means_are_over_prompts_of_means_over_samples():
    assert means(SOURCES, UIDS, VALUES) == pytest.approx(
        {
            "val-aux/aime/acc/mean@2": 0.75,
            "val-aux/gsm8k/acc/mean@2": 0.0,
            "val-aux/aime/length/mean@2": (20 + 6) / 2,
            "val-aux/gsm8k/length/mean@1": 1.0,
        }
    )


def test_means_are_those_that_verl_would_report():
    metric_utils = pytest.importorskip("verl.trainer.ppo.metric_utils")
    theirs = metric_utils.process_validation_metrics(SOURCES, UIDS, {"length": VALUES["length"], "acc": VALUES["acc"]})
    ours = means(SOURCES, UIDS, VALUES)
    for source, variables in theirs.items():
        for key, metrics in variables.items():
            name = next(name for name in metrics if name.startswith("mean@"))
            assert ours[f"val-aux/{source}/{key}/{name}"] == pytest.approx(metrics[name])


def test_only_accuracy_and_its_votes_are_bootstrapped():
    chosen, others = split(VALUES)
    assert (set(chosen), set(others)) == ({"acc", "pred"}, {"length", "reason"})
    assert set(split({"reward": [1.0], "length": [2.0]})[0]) == {"reward"}


def test_complete_counts_every_expected_sample():
    assert complete(UIDS, {("aime", "a"): 2, ("aime", "b"): 2, ("gsm8k", "c"): 2})
    assert not complete(UIDS, {("aime", "a"): 2, ("aime", "b"): 2, ("gsm8k", "c"): 3})
