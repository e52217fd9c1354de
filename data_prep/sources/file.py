"""A user's own parquet, jsonl or csv with a problem column and an answer column."""

from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.sources.base import Source, Split, from_columns


def build(options: Options) -> Source:
    """Return the source for the columns that the options name; its data_source is the one they give, or `file`."""
    if not options.input:
        raise DataError("source 'file' has nothing to read", remedy="Give --input PATH")
    columns = (options.problem_column, options.answer_column)
    return Source(
        data_source="file",
        splits={"test": Split("test"), "train": Split("train")},
        columns=tuple(dict.fromkeys(name.split(".")[0] for name in columns)),
        parse=from_columns(*columns),
        answer_column=options.answer_column,
        answers=options.answers,
    )
