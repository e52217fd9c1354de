"""Is this run healthy? Rules over the logged series, each with a threshold and advice. Pure; no torch, no verl.

A rule looks at the mean of the last `window` steps, so that one odd step does not fire it (`gradient_spike` is about
one step, and does). Before there are `window` steps with a value it says nothing. Thresholds stand in
`configs/health/default.yaml`; null switches a rule off. Nothing here changes the training.
"""

from __future__ import annotations

import math
import numbers
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recipe.metrics_log import validation_accuracy

ENTROPY = "actor/entropy"
GRAD_NORM = "actor/grad_norm"
TRUNCATED = "sampling/truncated_share/before_filter"
KEPT_SHARE = "sampling/kept_share"
PROBS_DIFF = "training/rollout_probs_diff_mean"
LENGTH = "sampling/response_length/before_filter"
REWARD = "sampling/reward/before_filter"
ACCURACY = "sampling/acc/before_filter"
HELD_OUT = "held-out accuracy"
WATCHED = (ENTROPY, GRAD_NORM, TRUNCATED, KEPT_SHARE, PROBS_DIFF, LENGTH, REWARD, ACCURACY)


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


def thresholds_are_numbers(config: Mapping[str, Any]) -> Iterator[str]:
    """A preflight rule: the section `health` of a configuration can be read."""
    try:
        HealthSettings.from_mapping(config["health"])
    except ValueError as error:
        yield str(error)


class Series:
    """Values of the watched metrics up to now, in step order; steps without a value are left out."""

    def __init__(self) -> None:
        self._values: dict[str, list[tuple[int, float]]] = {key: [] for key in (*WATCHED, HELD_OUT)}
        self.step = 0

    def add(self, step: int, data: Mapping[str, Any]) -> None:
        """Append the metrics of one step; a run that resumed repeats steps, and what it logged of them before goes."""
        self.step = step
        for values in self._values.values():
            while values and values[-1][0] > step:
                values.pop()
        for key in WATCHED:
            value = data.get(key)
            if isinstance(value, numbers.Real) and (key == GRAD_NORM or math.isfinite(value)):
                self._put(key, step, float(value))
        if (accuracy := validation_accuracy(data)) is not None:
            self._put(HELD_OUT, step, accuracy)

    def _put(self, key: str, step: int, value: float) -> None:
        values = self._values[key]
        if values and values[-1][0] == step:
            values.pop()
        values.append((step, value))

    def values(self, key: str) -> list[float]:
        """All values of a metric."""
        return [value for _, value in self._values[key]]

    def between(self, key: str, after: int, to: int) -> list[float]:
        """Values of the steps after `after` up to `to`."""
        return [value for step, value in self._values[key] if after < step <= to]


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


def _window_mean(series: Series, key: str, window: int) -> float | None:
    values = series.values(key)
    return statistics.fmean(values[-window:]) if len(values) >= window else None


def _below(name: str, key: str) -> Callable[[Series, HealthSettings], tuple[float, float] | None]:
    def judge(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
        mean, limit = _window_mean(series, key, settings.window), settings.thresholds[name]
        return (mean, limit) if mean is not None and limit is not None and mean < limit else None

    return judge


def _above(name: str, key: str) -> Callable[[Series, HealthSettings], tuple[float, float] | None]:
    def judge(series: Series, settings: HealthSettings) -> tuple[float, float] | None:
        mean, limit = _window_mean(series, key, settings.window), settings.thresholds[name]
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
    reward_gain = _gain(series, REWARD, window)
    if limit is None or reward_gain is None or reward_gain <= limit:
        return None
    gains = [gain for key in (HELD_OUT, ACCURACY) if (gain := _gain(series, key, window, key == HELD_OUT)) is not None]
    return (reward_gain, limit) if gains and min(gains) <= 0 else None


def _gain(series: Series, key: str, window: int, sparse: bool = False) -> float | None:
    """Mean of the last `window` steps minus that of the window before; None while a window is not full.

    `sparse`: one value in each window is enough.
    """
    now = series.step
    old, new = series.between(key, now - 2 * window, now - window), series.between(key, now - window, now)
    if min(len(old), len(new)) < (1 if sparse else window):
        return None
    return statistics.fmean(new) - statistics.fmean(old)


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
