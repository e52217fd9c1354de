"""The sampler's own keys (`trainer.v1.sampler.sampler_kwargs`), read and checked once. Pure."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recipe.acceptance import AcceptanceEstimate, DispatchPlanner
from recipe.dispatch import Bounds, StepController
from recipe.group_filter import FAILED, INCOMPLETE, KEPT, Decision, Filter, Group, GroupFilter
from recipe.prompt_history import SkipRule
from recipe.step_ledger import StepLedger

SURPLUS = ("drop", "carry_over")
_REMEMBERED = 4.0  # batches: acceptance falls as the model learns, and an estimate that lags fills a batch in driblets


class KeepAll:
    """Technique without a group filter: every complete group trains."""

    def decide(self, group: Group) -> Decision:
        """Keep all but broken groups."""
        if group.failed:
            return Decision(False, FAILED)
        expected = group.expected_samples or 1
        return Decision(True, KEPT) if len(group.accuracies) >= expected else Decision(False, INCOMPLETE)

    def settled(self, group: Group, expected_samples: int) -> bool:
        """Foresee that a group in flight will be kept, once anything of it has come."""
        return 0 < len(group.accuracies) <= expected_samples


@dataclass(frozen=True)
class SamplerSettings:
    """Checked `sampler_kwargs`; every field is explained in `configs/dapo_trainer.yaml`."""

    group_size: int
    train_batch_size: int
    group_filter: Filter
    bounds: Mapping[str, Any]
    planner: DispatchPlanner
    poll_interval_s: float
    surplus: str
    history: dict[str, Any] | None
    max_reward_error_share: float
    trace_dir: str | None

    @classmethod
    def from_kwargs(cls, kwargs: Mapping[str, Any]) -> "SamplerSettings":
        """Read a plain mapping.

        Raises:
            ValueError: a key is missing, unknown or out of range.
        """
        known = {"filter", "reward_is_shaped", "bounds", "max_in_flight", "poll_interval_s", "trace_dir"}
        known |= {"group_size", "train_batch_size", "surplus", "history", "max_reward_error_share", "hedge", "chunk"}
        if set(kwargs) != known:
            missing, unknown = sorted(known - set(kwargs)), sorted(set(kwargs) - known)
            raise ValueError(f"trainer.v1.sampler.sampler_kwargs: missing keys {missing}, unknown keys {unknown}")
        if kwargs["poll_interval_s"] <= 0:
            raise ValueError(f"sampler_kwargs.poll_interval_s={kwargs['poll_interval_s']} seconds must be positive")
        if kwargs["surplus"] not in SURPLUS:
            raise ValueError(f"sampler_kwargs.surplus={kwargs['surplus']!r} is unknown: use {' or '.join(SURPLUS)}")
        return cls(
            group_size=kwargs["group_size"],
            train_batch_size=kwargs["train_batch_size"],
            group_filter=_filter(kwargs["filter"], kwargs["reward_is_shaped"]),
            bounds=dict(kwargs["bounds"]),
            planner=DispatchPlanner(
                max_in_flight=kwargs["max_in_flight"] or 2 * kwargs["train_batch_size"],
                hedge=kwargs["hedge"],
                chunk=kwargs["chunk"],
            ),
            poll_interval_s=kwargs["poll_interval_s"],
            surplus=kwargs["surplus"],
            history=_history(kwargs["history"]),
            max_reward_error_share=kwargs["max_reward_error_share"],
            trace_dir=kwargs["trace_dir"],
        )

    def new_estimate(self) -> AcceptanceEstimate:
        """What a run begins with: nothing known, and a memory of a few batches."""
        return AcceptanceEstimate(memory=_REMEMBERED * self.train_batch_size)

    def controller(self, estimate: AcceptanceEstimate, rows: int, now: float) -> StepController:
        """Start a step: an empty ledger and the controller that decides its moves.

        Args:
            estimate: acceptance rate carried over the run.
            rows: prompts in the training data, what `bounds.max_passes` counts.
            now: seconds of a monotonic clock.
        """
        ledger = StepLedger(self.train_batch_size, started_at=now)
        return StepController(ledger, self.planner, estimate, Bounds(**self.bounds, rows=rows))


def load_filter(name: str) -> Filter:
    """Make the filter that `module:attribute` names: a class or function without arguments.

    Raises:
        ValueError: there is no such thing, or what it makes has no `decide`.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"filter.custom={name!r} cannot be made ({error}): give module:attribute, importable in every process, a "
            "class or function without arguments"
        ) from error
    if not callable(getattr(found, "decide", None)):
        raise ValueError(f"filter.custom={name!r} has no method decide(group): see recipe.group_filter.Filter")
    return found


def _history(kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of `PromptHistory`, or None when it is off."""
    options = dict(kwargs)
    if not options.pop("enable"):
        return None
    return {"keep": options.pop("keep"), "rule": SkipRule(**options)}


def _filter(kwargs: Mapping[str, Any], reward_is_shaped: bool) -> Filter:
    options = dict(kwargs)
    enabled, own = options.pop("enable"), options.pop("custom")
    if enabled and own is not None:
        return load_filter(own)
    group_filter = GroupFilter(**options, reward_is_shaped=reward_is_shaped and enabled)
    return group_filter if enabled else KeepAll()
