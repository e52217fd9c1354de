"""What a sampling step did, as the numbers that reach the logger: before the filter, after it, and the waste. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recipe.acceptance import AcceptanceEstimate
from recipe.group_filter import KEPT, Group
from recipe.step_ledger import StepLedger

LOSS_MASKED = "loss_masked"
"""Key of an agent loop's extra fields: 1.0 where overlong filtering took the sample out of the loss."""


@dataclass(frozen=True)
class GroupRecord:
    """A decided group and the filter's reason."""

    group: Group
    reason: str


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean; nan when there is nothing, so that a curve shows a gap and not a zero."""
    items = list(values)
    return sum(items) / len(items) if items else float("nan")


def sample_shares(samples: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Shares of the samples generated in a step by the 0/1 values that came with each; nan where none has the value."""
    infos = list(samples)
    names = ("masked", "parse_fail", "reward_error", "verl_disagrees", "bad_gold")
    return {f"sampling/{name}_share": mean(float(info[name]) for info in infos if name in info) for name in names}


def _side(records: list[GroupRecord], name: str) -> dict[str, float]:
    """Accuracy, reward, length and truncated share over the samples of `records`; lengths of right and wrong apart."""
    groups = [r.group for r in records]
    samples = [(a, n) for g in groups for a, n in zip(g.accuracies, g.lengths, strict=True)]
    return {
        f"sampling/acc/{name}": mean(a for a, _ in samples),
        f"sampling/reward/{name}": mean(x for g in groups for x in g.rewards),
        f"sampling/response_length/{name}": mean(n for _, n in samples),
        f"sampling/response_length_right/{name}": mean(n for a, n in samples if a > 0.5),
        f"sampling/response_length_wrong/{name}": mean(n for a, n in samples if a <= 0.5),
        f"sampling/truncated_share/{name}": mean(float(t) for g in groups for t in g.truncated),
    }


def step_metrics(
    ledger: StepLedger,
    records: dict[str, GroupRecord],
    selected: list[str],
    held: list[str],
    estimate: AcceptanceEstimate,
    now: float,
) -> dict[str, float]:
    """Metrics of one step that trains on `selected` and holds groups for the next one.

    Lengths in tokens, shares in 0..1, counts in groups (one group is one prompt). `before_filter` covers the groups
    that were generated in this step, `after_filter` those that train, carried ones included. Tokens are wasted when
    they were generated in this step for a group that is neither selected nor held; of a group that was given up or
    aborted, those of the samples that had arrived count.
    """
    every = [record for uid, record in records.items() if not ledger.entries[uid].carried]
    trained = [records[uid] for uid in selected]
    carried = sum(ledger.entries[uid].carried for uid in selected)
    counts, generated = ledger.counts(), max(1, ledger.generated)
    fresh = [entry for entry in ledger.entries.values() if not entry.carried]
    tokens, used = sum(e.tokens for e in fresh), {*selected, *held}
    wasted = sum(e.tokens for e in fresh if e.uid not in used)
    metrics = {
        "sampling/needed_groups": ledger.needed,
        "sampling/generated_groups": ledger.generated,
        "sampling/kept_groups": counts[KEPT],
        "sampling/trained_groups": len(selected),
        "sampling/surplus_groups": len(ledger.surplus()),
        "sampling/carried_share": carried / max(1, len(selected)),
        "sampling/kept_share": counts[KEPT] / generated,
        "sampling/generated_over_needed": ledger.generated / ledger.needed,
        "sampling/dispatches": ledger.dispatch_calls,
        "sampling/tokens_generated": tokens,
        "sampling/tokens_wasted": wasted,
        "sampling/tokens_wasted_share": wasted / max(1, tokens),
        "sampling/acceptance_estimate": estimate.rate(),
        "sampling/acceptance_std": estimate.uncertainty(),
        "sampling/seconds": now - ledger.started_at,
    }
    for state in counts.keys() - {KEPT}:
        metrics[f"sampling/groups/{state}"] = counts[state]
        metrics[f"sampling/group_share/{state}"] = counts[state] / generated
    return metrics | _side(every, "before_filter") | _side(trained, "after_filter")
