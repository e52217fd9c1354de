"""openai/gsm8k: grade-school problems whose `answer` is a worked solution that ends in `#### N`."""

import re
from typing import Any

from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.sources.base import Parsed, Source, Split, cell, from_columns

MARK = "####"
_CALCULATOR = re.compile(r"<<[^<>]*>>")  # 48/2=<<48/2=24>>24: what a calculator was asked


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="openai/gsm8k",
        splits={"test": Split("test", ("main/test-*.parquet",)), "train": Split("train", ("main/train-*.parquet",))},
        columns=("question", "answer"),
        parse=worked,
        repo="openai/gsm8k",
        answers="number",
    )


def worked(row: dict[str, Any]) -> Parsed:
    """Return the problem with its gold, and as its solution what stands before the mark, without calculator notes."""
    parsed = from_columns("question", "answer", final_answer)(row)
    solution = cell(row, "answer")
    working = _CALCULATOR.sub("", solution.rsplit(MARK, 1)[0]).strip() if isinstance(solution, str) else ""
    return parsed._replace(solution=working or None)


def final_answer(solution: str) -> str:
    """Return what follows the last `####`.

    Raises:
        DataError: there is no such mark.
    """
    if MARK not in solution:
        raise DataError(f"has no {MARK!r} before a final answer: {solution!r:.80}", column="answer")
    return solution.rsplit(MARK, 1)[1].strip()
