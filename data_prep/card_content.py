"""What goes into the card of one output."""

import platform
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pyarrow

from data_prep.card import rollout_steps, sha256_of
from data_prep.options import Options
from data_prep.parts import Part
from data_prep.report import Report
from data_prep.sources.base import Source
from data_prep.tokens import statistics

VERSION = "1"  # of the rules that decide about rows; a change of them is a change of the data


@dataclass
class Output:
    """One parquet file of a preparation, and what is known of it when its rows are written."""

    path: Path
    temporary: Path
    split: str
    part: Part
    report: Report
    rows: int = 0
    lengths: array = field(default_factory=lambda: array("L"))


def card_content(
    options: Options, source: Source, output: Output, hashes: list[tuple[str, str]], written: dict[str, int]
) -> dict[str, Any]:
    """Return the card of an output.

    Args:
        options: those of the preparation.
        source: what the rows are of.
        output: its rows are written.
        hashes: name and SHA-256 of each input file.
        written: the rows of every file of the preparation, by name.
    """
    report = output.report
    inputs = [{"name": name, "sha256": sha256} for name, sha256 in hashes]
    pinned = _pinned(source, output.part, inputs)
    return {
        "file": output.path.name,
        "sha256": sha256_of(output.temporary),
        "rows": output.rows,
        "split": output.split,
        "source": {
            "name": options.source,
            "repo": None if options.input else source.repo,
            "revision": output.part.revision,
            "inputs": inputs,
            "pinned": pinned,
        },
        "counts": {
            "rows_in": report.rows_in,
            "dropped": dict(sorted(report.dropped.items())),
            "written": written,
        },
        "listed": report.listed,
        "warnings": _warnings(output, pinned, options.train_batch_size),
        "recovered_from": dict(sorted(report.recovered.items())),
        "tokens": statistics(output.lengths),
        "rollout_steps": rollout_steps(output.rows, report.rows_in, options.train_batch_size),
        "options": options.stated(),
        "versions": {
            "data_prep": VERSION,
            "python": platform.python_version(),
            "pyarrow": pyarrow.__version__,
            "numpy": numpy.__version__,
        },
    }


def _pinned(source: Source, part: Part, inputs: list[dict[str, str]]) -> bool | None:
    """Tell whether the inputs are the file that the source pins by its SHA-256; None when it pins none."""
    wanted = source.pinned.get(part.split)
    return None if wanted is None else [found["sha256"] for found in inputs] == [wanted]


def _warnings(output: Output, pinned: bool | None, batch: int) -> list[str]:
    """Return what a user should look at before training."""
    report, part, found = output.report, output.part, []
    if report.listed.get("gives_away_answer"):
        found.append(f"{len(report.listed['gives_away_answer'])} problems hold a sentence with their own answer")
    if pinned is False:
        found.append("the input is not the published file that this source pins; compare its golds")
    if part.stop is not None and part.start + report.rows_in < part.stop:
        found.append(f"rows {part.start}:{part.stop} were asked for, the source ends at {part.start + report.rows_in}")
    if output.split == "train" and output.rows < batch:
        found.append(f"{output.rows} rows are less than one batch of {batch} prompts; verl stops on that")
    return found
