"""opencompass/AIME2025: 30 problems in two jsonl files, `question` and `answer`."""

from data_prep.options import Options
from data_prep.sources.base import Source, Split, from_columns


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="aime_2025",
        splits={"test": Split("aime-2025", ("*aime2025-I.jsonl", "*aime2025-II.jsonl"))},
        columns=("question", "answer"),
        parse=from_columns("question", "answer"),
        repo="opencompass/AIME2025",
    )
