"""zhuzilin/dapo-math-17k: the same problems, once each, as jsonl with `prompt` (messages) and `label`."""

from data_prep.options import Options
from data_prep.sources import dapo_layout
from data_prep.sources.base import Source, Split, from_columns


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="math_dapo",
        splits={"train": Split("dapo-math-17k", ("*.jsonl",))},
        columns=("prompt", "label"),
        parse=from_columns("prompt", "label"),
        answer_column="label",
        repo="zhuzilin/dapo-math-17k",
        style=dapo_layout.STYLE,
    )
