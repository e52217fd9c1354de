"""Which ground truths can be graded: refused when data is prepared or a run starts, only counted in training."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

MAX_GOLD = 1000
_SENTINEL = re.compile(
    r"\[?(?:invalid|unknown|n/?a|null|nan|missing|todo|\?+|-+|\.+)\]?|\[(?:ans|answer)\]|\$?answer", re.IGNORECASE
)


def check_gold(value: object) -> str:
    """Return ``value`` when it is a ground truth that can be graded.

    Raises:
        ValueError: it is no string, empty, a placeholder, too long, has control characters or unbalanced braces.
    """
    if value is None:
        raise ValueError("ground truth None is missing; drop the row, or give its answer")
    if not isinstance(value, str):
        raise ValueError(f"ground truth {value!r} is {type(value).__name__}, not a string; write it as {str(value)!r}")
    text = value.strip()
    if not text or not re.search(r"[0-9A-Za-z\\\u00bc-\u00be\u2150-\u215e\u221e\u03c0\u2205]", text):
        raise ValueError(f"ground truth {value!r} is empty; drop the row")
    if _SENTINEL.fullmatch(text) or text == "None":  # "none" may be an answer; "None" is Python's missing value
        raise ValueError(f"ground truth {value!r} is a placeholder, not an answer; drop the row")
    if len(text) > MAX_GOLD:
        raise ValueError(f"ground truth {text[:40]!r}... has {len(text)} characters, over {MAX_GOLD}; drop the row")
    if any((ord(char) < 32 and char not in "\n\t") or 0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise ValueError(f"ground truth {value!r} has control characters; a LaTeX escape was probably lost on the way")
    braces = re.sub(r"\\[{}]", "", text)
    if braces.count("{") != braces.count("}"):
        raise ValueError(f"ground truth {value!r} has unbalanced braces; repair or drop the row")
    return value


def canonical_gold(value: object) -> str:
    """Spell a usable ground truth canonically: ``033``, ``33.0``, ``+33``, ``$33$`` become ``33``; others are stripped.

    Raises:
        ValueError: as ``check_gold``, except that a whole number of any type is accepted and written as text.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = check_gold(value).strip()
    bare = text.strip("$ ").replace("\u2212", "-")
    if re.fullmatch(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+", bare):
        bare = bare.replace(",", "")
    found = re.fullmatch(r"([-+]?)0*([0-9]+?)(?:\.0*)?", bare)
    if found is None:
        return text
    return ("-" if found[1] == "-" and found[2] != "0" else "") + found[2]


def check_golds(rows: Iterable[Mapping[str, Any]], file: str = "<rows>") -> int:
    """Check ``reward_model.ground_truth`` of every row.

    Args:
        rows: rows of the training schema.
        file: name that the message gives.

    Returns:
        Number of rows.

    Raises:
        ValueError: names file, row number (from 0) and value of the first five bad ones, and how many there are.
    """
    problems, count = [], 0
    for row in rows:
        try:
            check_gold((row.get("reward_model") or {}).get("ground_truth"))
        except ValueError as error:
            problems.append(f"row {count}: {error}")
        count += 1
    if problems:
        head = f"{file}: {len(problems)} of {count} ground truths cannot be graded\n"
        raise ValueError(head + "\n".join(problems[:5]))
    return count


def check_parquet(path: str) -> int:
    """Check every ground truth of a parquet file; see ``check_golds``."""
    import pyarrow.parquet as pq

    reader = pq.ParquetFile(path)
    columns = ["reward_model"] if "reward_model" in reader.schema_arrow.names else []
    if not columns:
        raise ValueError(f"{path}: no column reward_model (has {reader.schema_arrow.names}); prepare it with data_prep")
    rows = (row for batch in reader.iter_batches(batch_size=4096, columns=columns) for row in batch.to_pylist())
    return check_golds(rows, path)
