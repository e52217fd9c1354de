"""What the health rules say of a whole run, for people: each rule once, with the steps at which it fired. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from eval.report.read import Run
from recipe.compose import CONFIG_DIR
from recipe.health import RULES, Finding, HealthSettings, judge_run

DEFAULTS = CONFIG_DIR / "health" / "default.yaml"


@dataclass(frozen=True)
class Firing:
    """One rule that fired: `spans` names the steps, `now` whether the last is one, `text` the last finding."""

    title: str
    spans: str
    now: bool
    text: str


def settings_of(config: Mapping[str, Any]) -> HealthSettings:
    """The thresholds that the run itself had; those of `configs/health/default.yaml` where it had none."""
    own = {key.removeprefix("health."): value for key, value in config.items() if key.startswith("health.")}
    defaults: Any = OmegaConf.to_container(OmegaConf.load(DEFAULTS).health)
    return HealthSettings.from_mapping({key: own.get(key, value) for key, value in defaults.items()})


def firings(run: Run) -> list[Firing] | None:
    """Rules that fired, in the order of the rules; None when no step was logged."""
    if not run.steps:
        return None
    findings = judge_run(run.steps, settings := settings_of(run.config))
    findings = sorted([*findings, *_only_logged(run, findings, settings)], key=lambda finding: finding.step)
    found = []
    for name, rule in RULES.items():
        mine = [finding for finding in findings if finding.rule == name]
        if mine:
            steps = [finding.step for finding in mine]
            found.append(
                Firing(rule.title, spans(steps, list(run.steps)), steps[-1] == max(run.steps), mine[-1].detail)
            )
    return found


def _only_logged(run: Run, judged: Sequence[Finding], settings: HealthSettings) -> list[Finding]:
    """What the run itself found and its series do not show: a value that is no finite number is not in them."""
    known = {(finding.rule, finding.step) for finding in judged}
    logged = {(rule, step) for step, data in run.steps.items() for rule in RULES if data.get(f"health/{rule}")}
    limits = settings.thresholds
    return [Finding(rule, step, math.nan, limits[rule] or math.nan) for rule, step in sorted(logged - known)]


def spans(fired: Sequence[int], logged: Sequence[int]) -> str:
    """Steps as text, neighbours among the logged ones joined: `3, 7 to 9`."""
    place = {step: i for i, step in enumerate(logged)}
    groups: list[list[int]] = []
    for step in fired:
        if groups and place[step] == place[groups[-1][-1]] + 1:
            groups[-1].append(step)
        else:
            groups.append([step])
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)
