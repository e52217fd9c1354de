"""What `scripts/submit_ray.sh` needs to know: whether a Ray cluster is large enough, and what a job takes along.

python -m recipe.ray_cluster check ADDRESS experiment=... [key=value ...]   ADDRESS of the dashboard: http://host:8265
python -m recipe.ray_cluster runtime_env FOLDER NAME ...   JSON: the packaged folder, the variables of those names,
                                                           no secrets, and the commit, which the packaged folder does
                                                           not know; local changes are written into FOLDER, which has
                                                           no .git once it is packaged, for whoever packages it to
                                                           remove again
"""

import fnmatch
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recipe.errors import ConfigError, user_errors
from recipe.provenance import SUBMITTED, commit, local_changes, write_text_atomic
from reward.secrets import names_secret

# Never packaged, wherever they lie; .gitignore is honoured by Ray as well.
EXCLUDES = (
    ".git",
    ".venv*",
    ".uv",
    ".*_cache",
    ".hypothesis",
    "data",
    "outputs",
    "checkpoints",
    "ckpts",
    "wandb",
    "__pycache__",
    "*.egg-info",
)
# verl repeats some of a job's variables, such as NCCL_ALGO, in the environment of its own ray.init, and so does
# recipe.main_dapo. Ray refuses a name that stands in both, whatever the values; asked so, it takes the driver's, and
# every other as the job has it.
OWN = {"RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}
MAX_PACKAGE_BYTES = 100_000_000  # Ray uploads it through its own store; larger ones are refused or time out


def gpus_of_nodes(address: str) -> list[float]:
    """GPUs of each living node, most first.

    Raises:
        ConfigError: nothing answers at the address.
    """
    from ray.util.state import list_nodes

    try:
        nodes: Sequence[Any] = list_nodes(
            address,
            filters=[("state", "=", "ALIVE")],
            raise_on_missing_output=False,  # a node that is just dying does not answer
        )
    except Exception as error:  # ray raises its own, requests' and plain ones, by version
        said = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise ConfigError(
            f"no Ray dashboard answers at {address} ({said}):", ["ray start --head, or set RAY_ADDRESS"]
        ) from error
    return sorted((float((node.resources_total or {}).get("GPU", 0)) for node in nodes), reverse=True)


def missing(gpus: Sequence[float], nnodes: int, n_gpus_per_node: int) -> str | None:
    """What the cluster lacks, or None: `nnodes` nodes with `n_gpus_per_node` GPUs each must be there."""
    if sum(count >= n_gpus_per_node for count in gpus) >= nnodes:
        return None
    found = ", ".join(f"{count:g}" for count in gpus) or "no"
    return (
        f"the recipe asks for trainer.nnodes={nnodes} x trainer.n_gpus_per_node={n_gpus_per_node} GPUs; the cluster "
        f"has {len(gpus)} node(s) with {found} GPUs: wait for the others to join (ray status), or set trainer.nnodes"
    )


def packaged(folder: Path) -> Iterator[Path]:
    """The files that a job takes along."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _excluded(name)]
        yield from (Path(parent) / name for name in names if not _excluded(name))


def _excluded(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in EXCLUDES)


def runtime_env(folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Ray's runtime environment of a job: this folder without `EXCLUDES`, and the variables.

    Raises:
        ConfigError: the folder is too large to be uploaded.
    """
    sizes = {path: path.lstat().st_size for path in packaged(folder)}
    if sum(sizes.values()) > MAX_PACKAGE_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise ConfigError(
            f"{folder} is too large for a job, {sum(sizes.values()) / 1e6:.0f} MB of {MAX_PACKAGE_BYTES / 1e6:.0f}:",
            [f"move {largest.relative_to(folder)} ({sizes[largest] / 1e6:.0f} MB) out of it, or below data/"],
        )
    return {"working_dir": str(folder), "excludes": list(EXCLUDES), "env_vars": dict(environment)}


def main() -> None:
    """Command line."""
    command, first, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    with user_errors():
        if command == "runtime_env":
            secret = {name for name in rest if name in os.environ and names_secret(name)}
            if secret:
                print(
                    f"ray_cluster: {', '.join(sorted(secret))} not forwarded: Ray shows a job's variables to whoever "
                    "sees its dashboard. Log in on the nodes (wandb login, hf auth login), or set it before ray start",
                    file=sys.stderr,
                )
            named = {name: os.environ[name] for name in rest if name in os.environ and name not in secret}
            write_text_atomic(Path(first) / SUBMITTED, json.dumps(local_changes()) + "\n")
            print(json.dumps(runtime_env(Path(first), {**named, **OWN, "RECIPE_COMMIT": commit()})))
            return
        from recipe.compose import compose

        trainer, gpus = compose(rest).trainer, gpus_of_nodes(first)
        if (problem := missing(gpus, trainer.nnodes, trainer.n_gpus_per_node)) is not None:
            raise ConfigError("this cluster is too small:", [problem])
    print(f"cluster     {len(gpus)} node(s), {sum(gpus):g} GPUs at {first}")


if __name__ == "__main__":
    main()
