"""Each rule fires on the series made for it, at the step where a reader would say so, and on no healthy run."""

import math
import random

import pytest
from omegaconf import OmegaConf

from recipe import health
from recipe.compose import compose
from recipe.health import RULES, HealthSettings, Monitor, judge_run

STEPS = 60


@pytest.fixture(scope="module")
def shipped():
    """The thresholds that every recipe runs with."""
    return OmegaConf.to_container(compose([]).health, resolve=True)


@pytest.fixture
def settings(shipped):
    return HealthSettings.from_mapping(shipped)


def healthy(seed=0):
    """A run as the paper shows it: accuracy, reward and length rise, entropy falls and settles, all with noise."""
    rng = random.Random(seed)
    steps = {}
    for step in range(1, STEPS + 1):
        accuracy = 0.35 + 0.5 * (1 - math.exp(-step / 20)) + rng.gauss(0, 0.01)
        truncated = max(0.0, 0.15 * math.exp(-step / 15) + rng.gauss(0, 0.005))
        steps[step] = {
            health.ENTROPY: 0.2 + 0.4 * math.exp(-step / 10) + rng.gauss(0, 0.02),
            health.GRAD_NORM: 0.3 * math.exp(rng.gauss(0, 0.4)),
            health.TRUNCATED: truncated,
            health.KEPT_SHARE: 0.7 - 0.4 * step / STEPS + rng.gauss(0, 0.05),
            health.PROBS_DIFF: abs(rng.gauss(0.003, 0.001)),
            health.LENGTH: 400 + 10 * step + rng.gauss(0, 20),
            health.ACCURACY: accuracy,
            health.REWARD: 2 * accuracy - 1 - 0.5 * truncated,
        }
        if step % 10 == 0:
            steps[step]["val-core/aime/acc/mean@4"] = accuracy + rng.gauss(0, 0.005)
    return steps


def changed(key, value, first=31, last=STEPS):
    """A healthy run in which `key` is `value(step, healthy value)` from step `first` to `last`."""
    steps = healthy()
    for step in range(first, last + 1):
        steps[step][key] = value(step, steps[step][key])
    return steps


def hacked():
    """The reward rises because answers are shaped for it; the accuracy that it stands for does not."""
    steps = healthy()
    for step, data in steps.items():
        data[health.ACCURACY] = 0.4
        data[health.REWARD] = -0.2 + 0.03 * step
        data.pop("val-core/aime/acc/mean@4", None)
    return steps


def leaked():
    """Training accuracy rises with the reward, held-out accuracy falls."""
    steps = healthy()
    for step, data in steps.items():
        data[health.ACCURACY], data[health.REWARD] = 0.3 + 0.01 * step, -0.4 + 0.03 * step
        data["val-core/aime/acc/mean@4"] = 0.5 - 0.001 * step
    return steps


SICK = {
    "entropy_collapse": changed(health.ENTROPY, lambda step, _: 0.3 * 0.8 ** (step - 30)),
    "entropy_runaway": changed(health.ENTROPY, lambda step, old: old + 0.1 * (step - 30)),
    "truncated": changed(health.TRUNCATED, lambda step, old: old + 0.02 * (step - 30)),
    "gradient_spike": changed(health.GRAD_NORM, lambda *_: 12.0, first=40, last=40),
    "nothing_kept": changed(health.KEPT_SHARE, lambda *_: 0.0),
    "probability_mismatch": changed(health.PROBS_DIFF, lambda step, old: old + 0.002 * (step - 30)),
    "length_collapse": changed(health.LENGTH, lambda step, old: old * 0.9 ** (step - 30)),
    "reward_without_accuracy": hacked(),
}


def test_there_is_a_sick_series_for_each_rule_and_a_threshold(shipped):
    assert set(SICK) == set(RULES) == set(shipped) - {"window"}


@pytest.mark.parametrize("seed", range(20))
def test_no_rule_fires_on_a_healthy_run(settings, seed):
    assert judge_run(healthy(seed), settings) == []


@pytest.mark.parametrize("rule", SICK)
def test_rule_fires_on_its_series_and_no_other_does(settings, rule):
    findings = judge_run(SICK[rule], settings)
    assert {finding.rule for finding in findings} == {rule}
    text = str(findings[0])
    assert RULES[rule].title in text
    assert "threshold" in text
    assert RULES[rule].advice in text


@pytest.mark.parametrize("rule", SICK)
def test_null_switches_a_rule_off(shipped, rule):
    assert judge_run(SICK[rule], HealthSettings.from_mapping(shipped | {rule: None})) == []


@pytest.mark.parametrize("rule", sorted(set(SICK) - {"gradient_spike", "reward_without_accuracy"}))
def test_one_odd_step_alone_does_not_fire(settings, rule):
    steps = healthy()
    key = RULES[rule].metric
    worst = {"entropy_runaway": 1.6, "truncated": 0.25, "probability_mismatch": 0.05}
    steps[40][key] = worst.get(rule, 0.0)
    assert judge_run(steps, settings) == []


def test_spike_is_reported_at_its_step_only(settings):
    assert [finding.step for finding in judge_run(SICK["gradient_spike"], settings)] == [40]


def test_gradient_that_is_not_finite_fires_at_once(settings):
    found = Monitor(settings).observe(1, {health.GRAD_NORM: math.nan})
    assert [finding.rule for finding in found] == ["gradient_spike"]


def test_accuracy_that_only_rises_in_training_counts_as_none(settings):
    assert "reward_without_accuracy" in {finding.rule for finding in judge_run(leaked(), settings)}


def test_nothing_is_said_before_the_window_is_full(settings):
    bad = {health.ENTROPY: 9.0, health.TRUNCATED: 1.0, health.KEPT_SHARE: 0.0, health.PROBS_DIFF: 1.0}
    findings = judge_run(dict.fromkeys(range(1, settings.window + 1), bad), settings)
    assert {finding.step for finding in findings} == {settings.window}


def test_a_rule_is_news_when_it_begins_to_fire(settings):
    monitor = Monitor(settings)
    news = {step: new for step, data in SICK["truncated"].items() if (new := monitor.news(step, data)[1])}
    assert len(news) == 1
    firing = [finding.step for finding in judge_run(SICK["truncated"], settings)]
    assert list(news) == firing[:1]


def test_steps_that_a_resumed_run_repeats_count_once(settings):
    monitor = Monitor(settings)
    good, bad = ({health.TRUNCATED: share} for share in (0.0, 0.5))
    for step in range(1, 9):
        monitor.observe(step, bad if step > 4 else good)
    monitor.observe(4, {"val-core/aime/acc/mean@4": 0.5})  # resumed from the checkpoint of step 4
    assert [monitor.observe(step, good) for step in range(5, 9)] == [[], [], [], []]


def test_metrics_that_a_run_does_not_log_are_not_judged(settings):
    assert judge_run({step: {"loss": 1.0} for step in range(1, 30)}, settings) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"windows": 3}, r"unknown keys \['windows'\]"),
        ({"window": 0}, "health.window=0 must be a whole number"),
        ({"truncated": "high"}, "health.truncated=high must be a number"),
        ({"truncated": -1}, "health.truncated=-1 must be a number of at least 0"),
    ],
)
def test_wrong_thresholds_are_refused_by_name(shipped, change, message):
    with pytest.raises(ValueError, match=message):
        HealthSettings.from_mapping(shipped | change)
