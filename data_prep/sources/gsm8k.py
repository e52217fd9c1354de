"""openai/gsm8k: grade-school problems whose `answer` is a worked solution that ends in `#### N`."""

from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.sources.base import Source, Split, from_columns

MARK = "####"


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="openai/gsm8k",
        splits={"test": Split("test", ("main/test-*.parquet",)), "train": Split("train", ("main/train-*.parquet",))},
        columns=("question", "answer"),
        parse=from_columns("question", "answer", final_answer),
        repo="openai/gsm8k",
        answers="number",
    )


def final_answer(solution: str) -> str:
    """Return what follows the last `####`.

    Raises:
        DataError: there is no such mark.
    """
    if MARK not in solution:
        raise DataError(f"has no {MARK!r} before a final answer: {solution!r:.80}", column="answer")
    return solution.rsplit(MARK, 1)[1].strip()
