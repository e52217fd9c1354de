"""The one row layout of every parquet that this package writes, and the check that each row passes.

| column                    | type    | meaning                                                                   |
|---------------------------|---------|---------------------------------------------------------------------------|
| data_source               | string  | name under which metrics and rewards group the row                        |
| prompt                    | list    | chat messages `{content, role}`, ready for the tokenizer's chat template  |
| ability                   | string  | kind of task, `MATH`                                                      |
| reward_model.ground_truth | string  | canonical gold answer, never empty (see `answers.py`)                     |
| reward_model.style        | string  | how it is graded; carried, not interpreted                                |
| extra_info.index          | int64   | row number in this file, from 0                                           |
| extra_info.raw_problem    | string  | the problem without any template                                          |
| extra_info.source_index   | int64   | row number in the source (file or generator), from 0                      |
| extra_info.split          | string  | split that the row belongs to, such as `train`                            |
| extra_info.prompt_tokens  | int64   | prompt length under the chat template; null when no tokenizer was given   |
| extra_info.solution       | string  | worked solution, for a warm start only; null unless the source fills it   |
"""

from typing import Any

import pyarrow as pa

from data_prep.errors import DataError

SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
        (
            "extra_info",
            pa.struct(
                [
                    ("index", pa.int64()),
                    ("raw_problem", pa.string()),
                    ("source_index", pa.int64()),
                    ("split", pa.string()),
                    ("prompt_tokens", pa.int64()),
                    ("solution", pa.string()),
                ]
            ),
        ),
    ]
)
COLUMNS = SCHEMA.names
ROLES = ("system", "user", "assistant")
_TEXTS = [
    "data_source",
    "ability",
    "reward_model.ground_truth",
    "reward_model.style",
    "extra_info.raw_problem",
    "extra_info.split",
]


def check_row(row: dict[str, Any]) -> None:
    """Check one row of the layout above, types and all.

    Raises:
        DataError: a value is missing, empty or of the wrong type; names the column (the caller adds file and row).
    """
    if list(row) != COLUMNS:
        raise DataError(f"columns are {list(row)}, not {COLUMNS}")
    for path in _TEXTS:
        _check_text(_get(row, path), path)
    _check_prompt(row["prompt"])
    for name in ("index", "source_index"):
        _check_count(row["extra_info"].get(name), f"extra_info.{name}")
    if row["extra_info"].get("prompt_tokens") is not None:
        _check_count(row["extra_info"]["prompt_tokens"], "extra_info.prompt_tokens")
    if row["extra_info"].get("solution") is not None:
        _check_text(row["extra_info"]["solution"], "extra_info.solution")


def _get(row: dict[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_text(value: Any, column: str) -> None:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"needs a non-empty string, has {value!r}", column=column)


def _check_count(value: Any, column: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DataError(f"needs a whole number from 0, has {value!r}", column=column)


def _check_prompt(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise DataError(f"needs a list of messages, has {messages!r}", column="prompt")
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise DataError(f"needs messages with a role of {ROLES}, has {message!r}", column="prompt")
        _check_text(message.get("content"), "prompt.content")
