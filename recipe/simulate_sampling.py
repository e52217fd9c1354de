"""Compare ways to fill a batch of kept groups, without a model: ``python -m recipe.simulate_sampling --help``.

Replays our policy, verl's built-in one and the older recipe's fixed generation batch on the same trace, recorded
(``--trace``) or synthetic, and prints for each what was generated over the ideal (needed / acceptance), the tokens
wasted, the rounds (dispatches) and the simulated time to a full batch, averaged over ``--steps`` steps.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipe.acceptance import DispatchPlanner
from recipe.decode_engine import DecodeEngine
from recipe.group_filter import GroupFilter
from recipe.sampling_builtin import VerlBuiltin
from recipe.sampling_policies import FixedBatch, Ours, Policy, Rollout
from recipe.sampling_trace import TraceGroup, measured_acceptance, read_trace, synthetic

POLICIES = ("ours", "verl_builtin", "fixed_batch")


@dataclass(frozen=True)
class Setting:
    """What all policies share. ``needed``: groups a step; ``slots``: answers decoded at a time; speed per slot."""

    needed: int = 512
    steps: int = 4
    slots: int = 2048
    tokens_per_second: float = 25.0
    in_flight: int = 0  # prompts, for ours; 0: a quarter more than the slots hold


def simulate(groups: list[TraceGroup], acceptance: float, setting: Setting) -> dict[str, dict[str, float]]:
    """Figures of every policy; see ``measure`` for their meaning."""
    rule = GroupFilter()
    in_flight = setting.in_flight or math.ceil(1.25 * setting.slots / len(groups[0].acc))
    policies: dict[str, Policy] = {
        "ours": Ours(rule, DispatchPlanner(in_flight, chunk=max(1, in_flight // 10))),
        "verl_builtin": VerlBuiltin(),
        "fixed_batch": FixedBatch(rule),
    }
    return {name: measure(policy, groups, acceptance, setting) for name, policy in policies.items()}


def measure(policy: Policy, groups: list[TraceGroup], acceptance: float, setting: Setting) -> dict[str, float]:
    """Run ``setting.steps`` steps; means a step.

    ``generated`` prompts, ``generated_over_ideal`` (ideal = needed / acceptance), ``tokens_wasted``: response tokens of
    groups that were not trained on, ``tokens_wasted_share`` of all, ``rounds``: dispatches, ``seconds`` simulated.
    """
    rollout = Rollout(groups, DecodeEngine(setting.slots, setting.tokens_per_second))
    trained = [uid for _ in range(setting.steps) for uid in policy.step(rollout, setting.needed)]
    total = sum(rollout.engine.decoded.values())
    wasted = total - sum(rollout.engine.decoded[uid] for uid in trained)
    generated = len(rollout.sent) / setting.steps
    return {
        "trained": len(trained) / setting.steps,
        "generated": generated,
        "generated_over_ideal": generated * acceptance / setting.needed,
        "tokens_wasted": wasted / setting.steps,
        "tokens_wasted_share": wasted / total,
        "rounds": rollout.calls / setting.steps,
        "seconds": rollout.engine.now / setting.steps,
    }


def table(result: dict[str, Any]) -> str:
    """The result as text, one line a policy."""
    lines = [
        f"acceptance {result['acceptance']:.3f}, {result['prompts']} prompts x {result['samples']} samples a step, "
        f"{result['steps']} steps, {result['slots']} slots, ideal {result['ideal']:.0f} prompts a step",
        f"{'policy':<14}{'gen/ideal':>10}{'generated':>11}{'wasted tokens':>15}{'share':>7}{'rounds':>8}{'seconds':>9}",
    ]
    for name, row in result["policies"].items():
        lines.append(
            f"{name:<14}{row['generated_over_ideal']:>10.3f}{row['generated']:>11.0f}{row['tokens_wasted']:>15,.0f}"
            f"{row['tokens_wasted_share']:>7.2f}{row['rounds']:>8.1f}{row['seconds']:>9.0f}"
        )
    return "\n".join(lines)


def trained_per_step(groups: list[TraceGroup]) -> int:
    """Groups that a step of the recorded run trained, carried ones aside; the paper's where none is marked."""
    return max(Counter(group.step for group in groups if group.trained).values(), default=Setting.needed)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Everything the command reports, as one JSON-ready dictionary."""
    if args.trace:
        groups = read_trace(args.trace)
        args.prompts = args.prompts or trained_per_step(groups)
        acceptance = measured_acceptance(groups, GroupFilter())
        if acceptance == 0:
            raise ValueError(f"--trace {args.trace}: no group of it can be kept, so no batch can ever be filled")
    else:
        args.prompts = args.prompts or Setting.needed
        count = round(2 * args.steps * max(args.prompts / args.acceptance, 3 * args.prompts))
        groups, acceptance = synthetic(args.acceptance, count, args.samples, args.seed), args.acceptance
    setting = Setting(args.prompts, args.steps, args.slots, args.tokens_per_second, args.in_flight)
    return {
        "acceptance": acceptance,
        "prompts": args.prompts,
        "samples": len(groups[0].acc),
        "steps": args.steps,
        "slots": args.slots,
        "tokens_per_second": args.tokens_per_second,
        "seed": args.seed,
        "trace": str(args.trace) if args.trace else "synthetic",
        "ideal": args.prompts / acceptance,
        "policies": simulate(groups, acceptance, setting),
    }


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Command line; defaults are the paper's batch."""
    parser = argparse.ArgumentParser(prog="python -m recipe.simulate_sampling", description=__doc__)
    add = parser.add_argument
    add("--acceptance", type=float, default=0.35, help="share of prompts that are kept, synthetic trace (0 to 1)")
    add("--prompts", type=int, help="groups needed a step; without it those that the trace's steps trained, or 512")
    add("--samples", type=int, default=16, help="samples a prompt, synthetic trace")
    add("--trace", type=Path, help="trace file (.jsonl) or folder recorded by a run, instead of a synthetic one")
    add("--seed", type=int, default=0)
    add("--steps", type=int, default=4, help="steps to average over; the first one starts without an estimate")
    add("--slots", type=int, default=2048, help="answers that the engines decode at a time, in all; no trace says")
    add("--tokens-per-second", type=float, default=25.0, help="decoding speed of one slot")
    add("--in-flight", type=int, default=0, help="prompts that ours may have in flight; 0: 1.25 x slots / samples")
    add("--json", type=Path, help="also write the result here")
    return parser.parse_args(argv)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings from what is imported: verl's import speaks of missing accelerators."""
    level = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(level)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison and print it."""
    args = parse(argv)
    with quiet():
        result = run(args)
    print(table(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
