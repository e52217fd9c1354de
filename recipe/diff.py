"""Prints what differs between two recipes, every key of verl's included.

    python -m recipe.diff dapo_qwen2.5_32b dapo_early_qwen2.5_32b
    python -m recipe.diff "experiment=tiny technique=dapo" outputs/RUN/config.resolved.yaml

A recipe is the name of a launch script (without run_), a YAML file such as a run's config.resolved.yaml, or its words.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from recipe.compose import compose
from recipe.resolved import flatten, overrides, scripts

ABSENT = "(absent)"


def load(recipe: str) -> dict[str, Any]:
    """All resolved values of a recipe by dotted key.

    Raises:
        ValueError: it is neither a launch script's name, nor a file, nor `key=value` words.
    """
    if recipe in scripts():
        return flatten(compose(overrides(scripts()[recipe])))
    if Path(recipe).is_file():
        return flatten(OmegaConf.load(recipe))
    words = recipe.split()
    if not words or not all("=" in word for word in words):
        raise ValueError(
            f"{recipe!r} is no recipe: give one of {', '.join(scripts())}, a YAML file, or key=value words"
        )
    return flatten(compose(words))


def differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys whose values differ, with both values."""
    pairs = {key: (a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys())}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Print what differs between two recipes.")
    parser.add_argument("a", metavar="A", help="launch script's name, YAML file, or words in quotes")
    parser.add_argument("b", metavar="B")
    args = parser.parse_args()
    try:
        found = differences(load(args.a), load(args.b))
    except ValueError as error:
        parser.exit(2, f"error: {error}\n")
    for key, (a, b) in found.items():
        print(f"{key}: {json.dumps(a)} -> {json.dumps(b)}")
    print(f"{len(found)} keys differ")


if __name__ == "__main__":
    main()
