"""The resolved values of every launch script's recipe, as committed under `configs/resolved/`.

    python -m recipe.resolved            write them anew
    python -m recipe.resolved --check    exit 1 when a file is not what its script composes to

A file holds one `key: value` line for each key that any file of `configs/`, or the script, sets.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from recipe.compose import CONFIG_DIR, compose

FOLDER = CONFIG_DIR / "resolved"
_SCRIPTS = CONFIG_DIR.parent / "scripts"
_FROM_USER = ("NNODES", "N_GPUS_PER_NODE")  # what a launch script takes from the environment into its words


def scripts() -> dict[str, Path]:
    """Launch scripts by recipe name: `scripts/run_NAME.sh`."""
    return {path.stem.removeprefix("run_"): path for path in sorted(_SCRIPTS.glob("run_*.sh"))}


def overrides(script: Path) -> list[str]:
    """The words that a launch script hands to Hydra, asked of the script itself."""
    environment = {key: value for key, value in os.environ.items() if key not in _FROM_USER}
    command = ["bash", str(script), "--overrides"]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves of a configuration or of nested dicts by dotted key; lists and empty dicts are leaves."""
    if isinstance(node, DictConfig):
        node = OmegaConf.to_container(node, resolve=True)
    if isinstance(node, dict) and (node or not prefix):
        return {k: v for name, child in node.items() for k, v in flatten(child, f"{prefix}{name}.").items()}
    return {prefix[:-1]: node}


def yaml_files() -> Iterator[Path]:
    """The YAML files that recipes are composed of, found recursively."""
    return (path for path in sorted(CONFIG_DIR.rglob("*.yaml")) if FOLDER not in path.parents)


def keys_of(path: Path) -> set[str]:
    """Dotted keys that a file of `configs/` sets."""
    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    for name in ("defaults", "hydra"):
        content.pop(name, None)
    return set(flatten(content))


@functools.cache
def _keys_of_all() -> set[str]:
    return set().union(*map(keys_of, yaml_files()))


def values(config: dict[str, Any], words: Iterable[str]) -> dict[str, Any]:
    """Those of the flattened values whose keys `configs/` or `words` set, sorted by key."""
    ours = _keys_of_all() | {word.lstrip("+").split("=")[0] for word in words}
    return {key: value for key, value in sorted(config.items()) if key in ours and value != "???"}


def render(name: str, words: list[str], config: dict[str, Any]) -> str:
    """Text of the committed file of a recipe, given its flattened values."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in values(config, words).items()]
    return "\n".join(
        [f"# scripts/run_{name}.sh: {' '.join(words)}", "# Written by python -m recipe.resolved", *lines, ""]
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Write or check configs/resolved/.")
    parser.add_argument("--check", action="store_true", help="exit 1 when a file is stale")
    check = parser.parse_args().check
    texts = {
        FOLDER / f"{n}.yaml": render(n, w, flatten(compose(w))) for n, p in scripts().items() if (w := overrides(p))
    }
    stale = [p for p, text in texts.items() if not p.is_file() or p.read_text() != text]
    orphans = [p for p in FOLDER.glob("*.yaml") if p not in texts]
    if check and (stale or orphans):
        sys.exit(f"stale: {', '.join(p.name for p in stale + orphans)}; run python -m recipe.resolved")
    FOLDER.mkdir(exist_ok=True)
    for path in orphans:
        path.unlink()
    for path in stale:
        path.write_text(texts[path])


if __name__ == "__main__":
    main()
