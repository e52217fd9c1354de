"""May a run resume from a checkpoint? Compares their identities (`recipe.run_identity`). Pure: no torch, no verl."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The position in the data counts in these; with another value it would point elsewhere.
FIXED = ("data.train_batch_size", "actor_rollout_ref.rollout.n", "data.seed", "data.shuffle", "data.train_max_samples")
# Of runs whose checkpoints do not name these keys: what they had, for it was the default when the keys were added.
EARLIER = {
    "actor_rollout_ref.actor.fsdp_config.model_dtype": "fp32",
    "actor_rollout_ref.model.lora_rank": 0,
    "actor_rollout_ref.model.lora_alpha": 16,
    "actor_rollout_ref.model.target_modules": "all-linear",
    "actor_rollout_ref.rollout.do_sample": True,
    "actor_rollout_ref.rollout.agent.default_agent_loop": "dapo_single_turn",
    "trainer.v1.sampler.custom_sampler.path": "pkg://recipe.dynamic_sampling",
    "trainer.v1.sampler.custom_sampler.name": "DynamicSampler",
    "trainer.v1.sampler.sampler_kwargs.bounds.give_up_after_s": 3600,
}
OVERRIDE = "allow_changed_resume"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Compare two identities.

    Returns:
        What makes a resume impossible (other data, or counted otherwise), and what else changed, as lines
        `key: old -> new`.
    """
    fixed: list[str] = []
    other: list[str] = []
    after = new["config"]
    before = {key: value for key, value in EARLIER.items() if key in after} | old["config"]
    for key in [*before, *(k for k in after if k not in before)]:
        if before.get(key) != after.get(key):
            line = f"{key}: {_shown(before, key)} -> {_shown(after, key)}"
            (fixed if key in FIXED else other).append(line)
    if new["data"] and [f["sha256"] for f in old["data"]] != [f["sha256"] for f in new["data"]]:
        fixed.append(f"data.train_files: {_files(old['data'])} -> {_files(new['data'])}")
    if _model(old["model"], new["model"]) != _model(new["model"], old["model"]):
        other.append(f"actor_rollout_ref.model.path: {_named(old['model'])} -> {_named(new['model'])}")
    return fixed, other


def loop_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """As `changes`, of what the laptop loop would make anew before it trains: data, and the base model."""
    lines = {
        key: f"{key}: {before} -> {after}"
        for key in ("loop.data", "loop.base_model", "loop.warm_start")
        if (before := old["loop"].get(key)) != (after := new["loop"].get(key))
    }
    data = lines.pop("loop.data", None)
    return [] if data is None else [data], list(lines.values())


def _shown(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "not set"


def _files(files: list[dict[str, Any]]) -> str:
    return ", ".join(f"{f['name']} ({f['rows']} rows, {f['sha256'][:12]})" for f in files) or "none"


def _model(one: Mapping[str, Any], two: Mapping[str, Any]) -> str:
    """What to compare of a model: its content where both are known, else its path."""
    return one["digest"] if one["digest"] and two["digest"] else one["path"]


def _named(model: Mapping[str, Any]) -> str:
    return f"{model['path']} ({model['digest'][:12]})" if model["digest"] else str(model["path"])


def resume_problems(
    folder: Path, stored: Mapping[str, Any], new: Mapping[str, Any], allowed: bool, in_loop: bool = False
) -> list[str]:
    """Say why the run that `new` describes must not resume from `folder`; empty when it may.

    Args:
        folder: the checkpoint.
        stored: identity in the checkpoint.
        new: identity of this run.
        allowed: the user set `allow_changed_resume=true`.
        in_loop: data and base model are made by the loop, and may have to be made anew before the training.
    """
    if "config" not in stored:
        return [
            f"{folder} was written by an older version of this recipe; start from its exported model in a new run_dir"
        ]
    fixed, other = changes(stored, new)
    if in_loop:
        made = loop_changes(stored, new)
        fixed, other = fixed + made[0], other + made[1]
    problems = [
        f"resuming from {folder} would skip or repeat data: {line}; restore it, or start from the exported model in a "
        "new run_dir"
        for line in fixed
    ]
    if not allowed:
        problems += [
            f"resuming from {folder} with a changed setting: {line}; restore it, take a new run_dir, or set "
            f"{OVERRIDE}=true"
            for line in other
        ]
    return problems
