"""The rungs of the paper's ladder, and the runs that an ablation is made of. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# technique of configs/technique/ -> avg@32 on AIME 2024 of Qwen2.5-32B, in percent (arXiv 2503.14476, table 1)
PAPER = {
    "naive_grpo": 30,
    "overlong_filtering": 36,
    "clip_higher": 38,
    "soft_overlong": 41,
    "token_level_loss": 42,
    "dapo": 50,
}
"""Each rung is the one before it and one idea more."""


@dataclass(frozen=True)
class Rung:
    """One run: a technique with a seed. `base` holds data, base model and its evaluation, shared by all of a seed."""

    technique: str
    seed: int
    folder: Path
    base: Path


def base_folder(out: Path, seed: int) -> Path:
    """Where data and base model of a seed are."""
    return out / f"seed{seed}" / "base"


def plan(out: Path, seeds: Sequence[int], techniques: Sequence[str]) -> list[Rung]:
    """All runs, seed by seed, so that a whole ladder exists as early as it can.

    Raises:
        ValueError: a technique is no rung, or a seed stands twice.
    """
    if unknown := [name for name in techniques if name not in PAPER]:
        raise ValueError(f"--rungs {' '.join(unknown)}: not in the ladder; choose of {', '.join(PAPER)}")
    if len(set(seeds)) < len(seeds) or not seeds:
        raise ValueError(f"--seeds {' '.join(map(str, seeds))}: give at least one seed, each once")
    rungs = [name for name in PAPER if name in techniques]
    return [Rung(name, seed, out / f"seed{seed}" / name, base_folder(out, seed)) for seed in seeds for name in rungs]
