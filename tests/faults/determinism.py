"""Does the same seed give the same first step twice on one machine?"""

from pathlib import Path
from typing import Any

from tests.e2e.conftest import trace
from tests.faults import recovery
from tests.faults.plan import TRAIN
from tests.faults.processes import Start
from tests.faults.scratch import Scratch, shipped_words

_SECONDS = 300
_LOSS = ("actor/pg_loss", "actor/grad_norm", "actor/entropy")


def run(folder: Path) -> dict[str, Any]:
    """Train one step twice; say what is the same, and what is not."""
    first, second = (_first_step(folder, name) for name in ("once", "again"))
    same = {key: first[key] == second[key] for key in first}
    return {
        "same": same,
        "loss": [first["loss"], second["loss"]],
        "problems": [f"{key} of the first step differ" for key, equal in same.items() if not equal],
    }


def _first_step(folder: Path, name: str) -> dict[str, Any]:
    """Prompts that were trained, their rewards and answer lengths, and the numbers of the update, of a fresh run."""
    with Scratch(folder, name) as scratch:
        start = Start(TRAIN, shipped_words(scratch, steps=1), scratch.log, scratch.environment)
        try:
            start.wait(_SECONDS)
        finally:
            start.kill()
        if start.child.poll() != 0:
            raise RuntimeError(f"the run ended with {start.child.poll()}; see {scratch.log}")
        trained = [group for group in trace(scratch.run_dir, 1) if group["trained"]]
        (metrics,) = recovery.logged(recovery.attempts(scratch.run_dir)[-1]).values()
        return {
            "prompts": [group["prompt"] for group in trained],
            "rewards": [group["rewards"] for group in trained],
            "lengths": [group["lengths"] for group in trained],
            "loss": [metrics[key] for key in _LOSS],
        }
