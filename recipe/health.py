"""Is this run healthy? Rules over the logged series, each with a threshold and advice. Pure; no torch, no verl.

A rule looks at the mean of the last `window` steps, so that one odd step does not fire it (`gradient_spike` is about
one step, and does). Before there are `window` steps with a value it says nothing. Thresholds stand in
`configs/health/default.yaml`; null switches a rule off. Nothing here changes the training.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recipe.health_series import (
    ACCURACY,
    ENTROPY,
    GRAD_NORM,
    HELD_OUT,
    KEPT_SHARE,
    LENGTH,
    PROBS_DIFF,
    REWARD,
    TRUNCATED,
    Series,
    gain,
    window_mean,
)


@dataclass(frozen=True)
class Finding:
    """A rule that fires at `step`: `value` is what it looked at, `threshold` what it compared that with."""

    rule: str
    step: int
    value: float
    threshold: float

    def __str__(self) -> str:
        """One line: the rule, what was seen, and what to do."""
        return f"{RULES[self.rule].title}: {self.detail}"

    @property
    def detail(self) -> str:
        """What was seen, and what to do."""
        rule = RULES[self.rule]
        return f"{rule.what} {self.value:.3g}, threshold {self.threshold:.3g}. {rule.advice}"


@dataclass(frozen=True)
class Rule:
    """One rule: `metric` is the logged key it judges by, `what` names the value in words.

    `judge` gets the series and the settings and returns value and limit when it fires, else None.
    """

    title: str
    metric: str
    what: str
    advice: str
    judge: Callable[[Series, HealthSettings], tuple[float, float] | None]


@dataclass(frozen=True)
class HealthSettings:
    """Thresholds by rule, explained in `configs/health/default.yaml`; None is off. `window` in steps."""

    window: int
    thresholds: Mapping[str, float | None]

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> HealthSettings:
        """Read the section `health` of a configuration.

        Raises:
            ValueError: a key is missing, unknown or no number.
        """
        thresholds = {key: value for key, value in values.items() if key != "window"}
        if set(thresholds) != set(RULES) or "window" not in values:
            missing, unknown = sorted({"window", *RULES} - set(values)), sorted(set(thresholds) - set(RULES))
            raise ValueError(f"health: missing keys {missing}, unknown keys {unknown}")
        if isinstance(values["window"], bool) or not isinstance(values["window"], int) or values["window"] < 1:
            raise ValueError(f"health.window={values['window']} must be a whole number of steps, at least 1")
        for key, value in thresholds.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
                raise ValueError(f"health.{key}={value} must be a number of at least 0, or null to switch the rule off")
        return cls(values["window"], thresholds)


class Monitor:
    """Feeds the steps of a run to the rules, one by one."""

    def __init__(self, settings: HealthSettings):
        self._settings = settings
        self._series = Series()
        self._firing: set[str] = set()

    def observe(self, step: int, data: Mapping[str, Any]) -> list[Finding]:
        """Add a step's metrics; return all rules that fire at it."""
        self._series.add(step, data)
        found = []
        for name, rule in RULES.items():
            judged = None if self._settings.thresholds[name] is None else rule.judge(self._series, self._settings)
            if judged is not None:
                found.append(Finding(name, step, *judged))
        return found

    def news(self, step: int, data: Mapping[str, Any]) -> tuple[list[Finding], list[Finding]]:
        """As `observe`: all rules that fire, and those of them that were quiet at the step before."""
        found = self.observe(step, data)
        new = [finding for finding in found if finding.rule not in self._firing]
        self._firing = {finding.rule for finding in found}
        return found, new


def judge_run(steps: Mapping[int, Mapping[str, Any]], settings: HealthSettings) -> list[Finding]:
    """Every finding at every step of a whole run, in order."""
    monitor = Monitor(settings)
    return [finding for step, data in steps.items() for finding in monitor.observe(step, data)]


def _below(name: str, key: str) -> Callable[[Series, HealthSettings], tuple[float, float] | None]:
    def judge(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
        mean, limit = window_mean(series, key, settings.window), settings.thresholds[name]
        return (mean, limit) if mean is not None and limit is not None and mean < limit else None

    return judge


def _above(name: str, key: str) -> Callable[[Series, HealthSettings], tuple[float, float] | None]:
    def judge(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
        mean, limit = window_mean(series, key, settings.window), settings.thresholds[name]
        return (mean, limit) if mean is not None and limit is not None and mean > limit else None

    return judge


def _gradient_spike(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
    values, factor = series.values(GRAD_NORM), settings.thresholds["gradient_spike"]
    if not values or factor is None:
        return None
    if not math.isfinite(values[-1]):
        return values[-1], factor
    before = [v for v in values[-settings.window - 1 : -1] if math.isfinite(v)]
    if len(before) < settings.window or not (typical := statistics.median(before)):
        return None
    return (values[-1], factor * typical) if values[-1] > factor * typical else None


def _length_collapse(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
    values, share, window = series.values(LENGTH), settings.thresholds["length_collapse"], settings.window
    if len(values) < 2 * window or share is None:
        return None
    means = [statistics.fmean(values[i : i + window]) for i in range(len(values) - window + 1)]
    limit = share * max(means)
    return (means[-1], limit) if means[-1] < limit else None


def _reward_without_accuracy(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
    """Reward rose from one window to the next, accuracy (before the filter, or held out) did not."""
    window, limit = settings.window, settings.thresholds["reward_without_accuracy"]
    reward_gain = gain(series, REWARD, window)
    if limit is None or reward_gain is None or reward_gain <= limit:
        return None
    gains = [gain(series, key, window, sparse=key == HELD_OUT) for key in (HELD_OUT, ACCURACY)]
    known = [value for value in gains if value is not None]
    return (reward_gain, limit) if known and min(known) <= 0 else None


RULES: dict[str, Rule] = {
    "entropy_collapse": Rule(
        "Entropy collapse",
        ENTROPY,
        "mean entropy in nats a token",
        "The model has stopped exploring: raise actor_rollout_ref.actor.clip_ratio_high, lower the learning rate, or "
        "stop here if held-out accuracy is where it should be.",
        _below("entropy_collapse", ENTROPY),
    ),
    "entropy_runaway": Rule(
        "Entropy run-away",
        ENTROPY,
        "mean entropy in nats a token",
        "Answers drift into noise: lower the learning rate or clip_ratio_high, and look at truncated answers below.",
        _above("entropy_runaway", ENTROPY),
    ),
    "truncated": Rule(
        "Truncated answers",
        TRUNCATED,
        "share of answers cut at the limit",
        "Raise data.max_response_length, keep the overlong punishment on, and check that the model ends its answers "
        "(eos, chat template).",
        _above("truncated", TRUNCATED),
    ),
    "gradient_spike": Rule(
        "Gradient spike",
        GRAD_NORM,
        "gradient norm",
        "One spike is clipped away; several mean that the learning rate is too high or the batch holds broken answers. "
        "Go back to the checkpoint before and lower the rate.",
        _gradient_spike,
    ),
    "nothing_kept": Rule(
        "Hardly a group is kept",
        KEPT_SHARE,
        "share of groups kept",
        "The data is too hard or too easy for this model: see groups by reason, and choose other problems or "
        "more samples a prompt.",
        _below("nothing_kept", KEPT_SHARE),
    ),
    "probability_mismatch": Rule(
        "Rollout and trainer disagree",
        PROBS_DIFF,
        "mean difference of a token's probability",
        "Check that both run the same weights and precision, set rollout.enforce_eager=true, or correct with "
        "algorithm.rollout_correction.",
        _above("probability_mismatch", PROBS_DIFF),
    ),
    "length_collapse": Rule(
        "Length collapse",
        LENGTH,
        "mean response tokens",
        "Answers became much shorter: read some below. Look at the overlong punishment (too early, too strong) and at "
        "what the reward pays for.",
        _length_collapse,
    ),
    "reward_without_accuracy": Rule(
        "Reward without accuracy",
        REWARD,
        "reward gained",
        "The model learns what the reward pays besides right answers, such as length: read answers below and check the "
        "reward.",
        _reward_without_accuracy,
    ),
}
"""All rules by their key under `health`."""
