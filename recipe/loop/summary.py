"""`summary.json`: the figures of a run, each taken from a file that the run wrote."""

import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from recipe.loop.phases import Record, report_page
from recipe.provenance import write_text_atomic
from recipe.stamps import ATTEMPTS, RESOLVED_CONFIG

ACCURACY_KEYS = ("mean", "low", "high", "problems", "samples")


def accuracy(path: Path) -> dict[str, Any]:
    """The accuracy entry of the summary from an evaluation's own summary."""
    found = json.loads(path.read_text())
    return {key: found[key] for key in ACCURACY_KEYS}


def trained_with(run_dir: Path) -> dict[str, Any]:
    """What the newest start of the training was made of; the code may have moved on since."""
    return json.loads(max((run_dir / ATTEMPTS).glob("*/stamp.json")).read_text())


def summarise(config: DictConfig, record: Record, run_dir: Path) -> dict[str, Any]:
    """Collect, write `summary.json` and return it."""
    seconds = {name: round(entry["seconds"], 1) for name, entry in record.data["phases"].items()}
    trained = trained_with(run_dir)
    base = run_dir / "eval/base.summary.json"  # only where a warm start came between
    summary = {
        **({"accuracy_base": accuracy(base)} if config.loop.warm_start is not None else {}),
        "accuracy_before": accuracy(run_dir / "eval/before.summary.json"),
        "accuracy_after": accuracy(run_dir / "eval/after.summary.json"),
        "phases_s": seconds,
        "total_s": round(sum(seconds.values()), 1),
        "peak_memory_gb": round(record.data["peak_bytes"] / 1e9, 2),
        "steps": config.trainer.total_training_steps,
        "seed": config.seed,
        "versions": trained["versions"],
        "commit": trained["commit"],
        "report": str(report_page(run_dir)) if report_page(run_dir).is_file() else None,
        "resolved_config": str(run_dir / RESOLVED_CONFIG),
    }
    write_text_atomic(run_dir / "summary.json", json.dumps(summary, indent=1) + "\n")
    return summary
