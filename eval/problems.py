"""Problems of a prepared parquet: what is asked, how often, and what the right answer is."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Message = dict[str, str]


@dataclass(frozen=True)
class Problem:
    """One problem. `index` counts distinct problems in the order of the file; `digest` names its messages."""

    index: int
    digest: str
    messages: list[Message]
    gold: str


def read_problems(path: Path) -> tuple[list[Problem], Counter[int]]:
    """Distinct problems of a parquet, and how many rows each has (the published AIME file repeats each 32 times).

    Raises:
        ValueError: the file is missing or no parquet of data_prep, or two rows of one problem have different golds.
    """
    problems: dict[str, Problem] = {}
    rows: Counter[int] = Counter()
    for messages, gold in _read_rows(path):
        digest = digest_of(messages)
        problem = problems.setdefault(digest, Problem(len(problems), digest, messages, gold))
        if problem.gold != gold:
            raise ValueError(
                f"{path}: problem {problem.index} has the golds {problem.gold!r} and {gold!r}; mend the file"
            )
        rows[problem.index] += 1
    if not problems:
        raise ValueError(f"{path} has no rows")
    return list(problems.values()), rows


def samples_a_problem(rows: Counter[int], n: int | None) -> int:
    """How many samples each problem gets: `n`, or else the number of rows that each problem has.

    Raises:
        ValueError: `n` is below 1, or is missing and the problems have different numbers of rows.
    """
    if n is not None:
        if n < 1:
            raise ValueError(f"--n is {n}; it must be at least 1")
        return n
    counts = set(rows.values())
    if len(counts) > 1:
        raise ValueError(f"problems have between {min(counts)} and {max(counts)} rows; say --n samples a problem")
    return counts.pop()


def digest_of(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def with_system(messages: list[Message], system: str | None) -> list[Message]:
    """The messages to send: `system` replaces the system message of the file, or is put in front."""
    if system is None:
        return messages
    return [{"role": "system", "content": system}, *(m for m in messages if m["role"] != "system")]


def hashes(problems: Iterable[Problem], system: str | None) -> dict[str, str]:
    """`prompt_hash` of the messages as sent, `data_hash` of problems with golds; the order of rows does not count."""
    problems = list(problems)
    return {
        "prompt_hash": digest_of(sorted(digest_of(with_system(p.messages, system)) for p in problems)),
        "data_hash": digest_of(sorted([p.digest, p.gold] for p in problems)),
    }


def _read_rows(path: Path) -> Iterable[tuple[list[Message], str]]:
    if not path.is_file():
        raise ValueError(f"{path} does not exist; python -m data_prep.prepare aime_2024 --out {path.parent} makes it")
    try:
        rows = pq.read_table(path, columns=["prompt", "reward_model"]).to_pylist()
        return [
            ([{"role": m["role"], "content": m["content"]} for m in row["prompt"]], row["reward_model"]["ground_truth"])
            for row in rows
        ]
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise ValueError(
            f"{path}: not a parquet of data_prep ({error}); write one with python -m data_prep.prepare"
        ) from error
