"""Where problems come from. A new source is one file with a `build(options) -> Source`, and one line here."""

from collections.abc import Callable

from data_prep.options import Options
from data_prep.sources import (
    aime_2024,
    aime_2025,
    arithmetic,
    dapo_math_17k,
    dapo_math_17k_jsonl,
    file,
    gsm8k,
    math_500,
    word_problems,
)
from data_prep.sources.base import Source

REGISTRY: dict[str, Callable[[Options], Source]] = {
    "dapo_math_17k": dapo_math_17k.build,
    "dapo_math_17k_jsonl": dapo_math_17k_jsonl.build,
    "aime_2024": aime_2024.build,
    "aime_2025": aime_2025.build,
    "gsm8k": gsm8k.build,
    "math_500": math_500.build,
    "arithmetic": arithmetic.build,
    "word_problems": word_problems.build,
    "file": file.build,
}
