"""A problem on its way from a source to a row of the schema."""

from dataclasses import dataclass
from typing import Any

from data_prep.templates import render


@dataclass(slots=True)
class Record:
    """One problem with its canonical answer. `source_index` counts rows of the source from 0."""

    problem: str
    answer: str
    source_index: int
    data_source: str
    ability: str = "MATH"
    style: str = "rule"
    prompt_tokens: int | None = None
    solution: str | None = None


def messages(problem: str, template: str) -> list[dict[str, str]]:
    """Return the chat messages of a problem under a template: one user turn."""
    return [{"content": render(problem, template), "role": "user"}]


def to_row(record: Record, index: int, split: str, template: str) -> dict[str, Any]:
    """Return the row of `data_prep.schema` for a record that becomes row `index` of the file of `split`."""
    return {
        "data_source": record.data_source,
        "prompt": messages(record.problem, template),
        "ability": record.ability,
        "reward_model": {"ground_truth": record.answer, "style": record.style},
        "extra_info": {
            "index": index,
            "raw_problem": record.problem,
            "source_index": record.source_index,
            "split": split,
            "prompt_tokens": record.prompt_tokens,
            "solution": record.solution,
        },
    }
