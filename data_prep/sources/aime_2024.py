"""BytedTsinghua-SIA/AIME-2024: 30 problems, 32 times each."""

from data_prep.options import Options
from data_prep.sources import dapo_layout
from data_prep.sources.base import Source, Split

# SHA-256 of the 960-row parquet. A wrong copy (384 for 385 in I-12) and copies with the answer in the text exist.
SHA256 = "12154e38a716d12db5731f9a022ae69a610c4f7d0e0dcc04e902887a686877e7"


def build(options: Options) -> Source:
    """Return the source."""
    return Source(
        data_source="math_dapo",
        splits={"test": Split("aime-2024", ("*aime-2024.parquet",))},
        columns=dapo_layout.COLUMNS,
        optional=dapo_layout.OPTIONAL,
        parse=dapo_layout.parse,
        answer_column="reward_model.ground_truth",
        repo="BytedTsinghua-SIA/AIME-2024",
        style=dapo_layout.STYLE,
        pinned={"test": SHA256},
    )
