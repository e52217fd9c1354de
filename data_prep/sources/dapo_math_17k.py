"""BytedTsinghua-SIA/DAPO-Math-17k: about 1.79 million rows, about 17 thousand problems."""

from data_prep.options import Options
from data_prep.sources import dapo_layout
from data_prep.sources.base import Source, Split


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="math_dapo",
        splits={"train": Split("dapo-math-17k", ("*dapo-math-17k.parquet",))},
        columns=dapo_layout.COLUMNS,
        optional=dapo_layout.OPTIONAL,
        parse=dapo_layout.parse,
        answer_column="reward_model.ground_truth",
        repo="BytedTsinghua-SIA/DAPO-Math-17k",
        style=dapo_layout.STYLE,
    )
