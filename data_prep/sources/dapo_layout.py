"""Rows in the layout of BytedTsinghua-SIA's parquet files (five columns, prompt already wrapped)."""

from typing import Any

from data_prep.errors import DataError
from data_prep.sources.base import Parsed, cell, problem_text

COLUMNS = ("data_source", "prompt", "ability", "reward_model")
OPTIONAL = ("extra_info.raw_problem",)  # not the whole struct: its `index` differs between copies of a row
STYLE = "rule-lighteval/MATH_v2"


def parse(row: dict[str, Any]) -> Parsed:
    """Return the problem of a row: `extra_info.raw_problem` where there is one, else what the prompt wraps."""
    problem, template = problem_text(row["prompt"], "prompt")
    raw = (row.get("extra_info") or {}).get("raw_problem")
    if raw is not None:
        problem = problem_text(raw, "extra_info.raw_problem")[0]
    return Parsed(
        problem,
        cell(row, "reward_model.ground_truth"),
        data_source=_label(row, "data_source"),
        ability=_label(row, "ability"),
        style=_label(row, "reward_model.style"),
        template=template,
    )


def _label(row: dict[str, Any], column: str) -> str:
    label = cell(row, column)
    if not isinstance(label, str) or not label:
        raise DataError(f"needs a non-empty string, has {label!r}", column=column)
    return label
