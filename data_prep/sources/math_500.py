"""HuggingFaceH4/MATH-500: competition problems whose answers are LaTeX."""

from data_prep.options import Options
from data_prep.sources.base import Source, Split, from_columns


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="HuggingFaceH4/MATH-500",
        splits={"test": Split("math-500", ("test.jsonl",))},
        columns=("problem", "answer"),
        parse=from_columns("problem", "answer"),
        repo="HuggingFaceH4/MATH-500",
        answers="any",
    )
