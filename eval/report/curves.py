"""Which logged series a report draws, in which order, and what each means to a reader. Pure data.

A curve names its metric keys in order of preference: the first one that a run has is drawn.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recipe.metrics_log import Steps

HELD_OUT = re.compile(r"val-core/(?P<source>.+)/acc/(?P<statistic>mean|best|maj)@\d+(/mean)?$")
_STATISTICS = {"mean": "mean", "best": "best of k", "maj": "majority"}


@dataclass(frozen=True)
class Line:
    """One line of a curve: its label (empty when it is the only one) and its metric keys, best first."""

    label: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """One figure over training steps. `name` is its file name, `note` one sentence on how to read it."""

    name: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    note: str = ""


def _one(name: str, title: str, unit: str, *keys: str, note: str = "") -> Curve:
    return Curve(name, title, unit, (Line("", keys),), note)


def _sides(name: str, title: str, unit: str, metric: str, note: str = "") -> Curve:
    keys = [(f"{side} the filter", (f"sampling/{metric}/{side}_filter",)) for side in ("before", "after")]
    return Curve(name, title, unit, tuple(Line(*k) for k in keys), note)


PAPER = (
    _one("response_length", "Response length", "tokens", "sampling/response_length/before_filter",
         "response_length/mean", note="Mean over all generated answers, before the filter."),
    _one("reward", "Reward", "reward", "sampling/reward/before_filter", "critic/score/mean",
         note="Before the filter; the overlong punishment is part of it, so it is not accuracy."),
    _one("entropy", "Entropy", "nats a token", "actor/entropy",
         note="Near 0 the model no longer explores; rising without end it drifts into noise."),
    _one("generation_probability", "Mean generation probability", "probability", "actor/mean_generation_prob",
         note="Mean probability of the sampled tokens under the policy that sampled them; trained groups only."),
)  # fmt: skip
"""The curves that the DAPO paper judges a run by; held-out accuracy (there: AIME) is added by `held_out`."""

FILTER = (
    _sides("accuracy", "Training accuracy", "share right", "acc",
           "After the filter it says little: every group has right and wrong answers by design."),
    _one("kept_share", "Groups kept", "share of generated", "sampling/kept_share"),
    _one("wasted_tokens", "Tokens not trained on", "share of generated", "sampling/tokens_wasted_share"),
    _one("truncated", "Truncated answers", "share of generated", "sampling/truncated_share/before_filter"),
    Curve("length_right_wrong", "Length of right and wrong answers", "tokens",
          (Line("right", ("sampling/response_length_right/before_filter",)),
           Line("wrong", ("sampling/response_length_wrong/before_filter",)))),
    _one("unread_answers", "Answers without a readable result", "share of generated", "sampling/parse_fail_share"),
)  # fmt: skip

UPDATES = (
    Curve("clip_fraction", "Clip fraction", "share of tokens",
          (Line("high", ("actor/clip_frac_high",)), Line("low", ("actor/clip_frac_low",))),
          "High: tokens that clip-higher stops from gaining more. Zero with one update a step."),
    _one("gradient_norm", "Gradient norm", "norm", "actor/grad_norm", note="Before clipping."),
    _one("probability_difference", "Rollout against trainer", "|difference| of probability",
         "training/rollout_probs_diff_mean", note="Mean over tokens; with the same weights it should be near 0."),
    _one("gradient_steps", "Gradient steps", "updates", "training/gradient_step",
         note="Updates over the run; the other figures count rollout steps."),
)  # fmt: skip

COST = (
    _one("step_time", "Time of a step", "seconds", "timing_s/step"),
    _one("throughput", "Throughput", "tokens a second a device", "perf/throughput",
         note="Tokens trained on, prompts included, over the whole step."),
    Curve("memory", "Memory", "GB",
          (Line("machine, in use", ("actor/perf/cpu_memory_used_gb",)),
           Line("device, peak", ("actor/perf/max_memory_allocated_gb",)))),
)  # fmt: skip

REASONS = {
    "kept": "sampling/kept_groups",
    "all right": "sampling/groups/all_correct",
    "all wrong": "sampling/groups/all_wrong",
    "too easy": "sampling/groups/too_easy",
    "too hard": "sampling/groups/too_hard",
    "no spread": "sampling/groups/no_spread",
    "incomplete": "sampling/groups/incomplete",
    "failed": "sampling/groups/failed",
    "given up": "sampling/groups/given_up",
    "aborted": "sampling/groups/aborted",
}
"""What became of the generated groups of a step; together they are all of them."""

TIMES = {
    "rollout and sampling": ("timing_s/gen", "timing_s/sample", "timing_s/generate_sequences"),
    "old probabilities": ("timing_s/old_log_prob",),
    "reference": ("timing_s/ref",),
    "advantage": ("timing_s/adv",),
    "update": ("timing_s/update_actor",),
    "weights to rollout": ("timing_s/update_weights",),
    "checkpoint": ("timing_s/save_checkpoint",),
    "validation": ("timing_s/testing",),
}
"""Parts of a step by the first of verl's timers that is there; what none of them counts is "other"."""


def held_out(runs: Sequence[Steps]) -> list[Curve]:
    """One curve for each held-out data set that any run validated on; its value counts the samples a problem."""
    found: dict[str, dict[str, list[str]]] = {}
    for key in sorted({key for steps in runs for data in steps.values() for key in data}):
        if match := HELD_OUT.match(key):
            found.setdefault(match["source"], {}).setdefault(match["statistic"], []).append(key)
    return [
        Curve(
            f"held_out_{re.sub(r'[^a-zA-Z0-9]+', '_', source)}",
            f"Held-out accuracy, {source}",
            "share right",
            tuple(Line(label, tuple(keys[name])) for name, label in _STATISTICS.items() if name in keys),
            "Mean over samples, best of k and majority vote (the paper's avg@k, pass@k and cons@k) in training's own "
            "validation. verl draws the k with replacement, so its best is a little below pass@k.",
        )
        for source, keys in found.items()
    ]


def series(steps: Steps, line: Line) -> tuple[list[int], list[float]]:
    """Steps and values of a line, by the first of its keys that the run has."""
    for key in line.keys:
        points = [(step, data[key]) for step, data in steps.items() if key in data]
        if points:
            return [step for step, _ in points], [value for _, value in points]
    return [], []
