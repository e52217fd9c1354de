"""Command line: `python -m data_prep.inspect FILE`: what is in a data file, before a trainer reads it.

Prints schema, counts, duplicates, answer kinds, a histogram of problem lengths, what the card says and five samples.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.answers import kind_of
from data_prep.card import read_card
from data_prep.decontaminate import problem_of
from data_prep.errors import DataError
from data_prep.files import check_file
from data_prep.parquet_rows import open_parquet
from data_prep.readers import read_chunks
from data_prep.text import digest

SAMPLES = 5
_BINS = (100, 200, 300, 500, 800, 1200, 2000, 4000)
_ANSWERS = ("reward_model.ground_truth", "label", "answer")
_COLUMNS = ("data_source", "extra_info.raw_problem", "extra_info.prompt_tokens", "prompt", "problem", "question")


@dataclass
class Findings:
    """Counts over the rows of a file. Lengths are characters of the problem without its template."""

    rows: int = 0
    sources: Counter = field(default_factory=Counter)
    kinds: Counter = field(default_factory=Counter)
    lengths: Counter = field(default_factory=Counter)
    longest_prompt: int | None = None
    samples: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[bytes, str] = field(default_factory=dict)
    conflicts: set[bytes] = field(default_factory=set)

    def add(self, problem: str, answer: str, row: dict[str, Any]) -> None:
        """Count one row."""
        self.rows += 1
        self.sources[str(row.get("data_source"))] += 1
        self.kinds[kind_of(answer)] += 1
        self.lengths[next((f"< {limit}" for limit in _BINS if len(problem) < limit), f">= {_BINS[-1]}")] += 1
        if self.answers.setdefault(digest(problem), answer) != answer:
            self.conflicts.add(digest(problem))
        if len(self.samples) < SAMPLES:
            self.samples.append((problem, answer))
        tokens = (row.get("extra_info") or {}).get("prompt_tokens")
        if tokens is not None:
            self.longest_prompt = max(tokens, self.longest_prompt or 0)


def look(path: Path) -> Findings:
    """Read a parquet, jsonl or csv file of any layout that this package knows.

    Raises:
        DataError: the file cannot be read, or a row holds no problem.
    """
    findings = Findings()
    for chunk in read_chunks(path, (), (*_COLUMNS, *_ANSWERS)):
        for number, row in chunk.rows:
            try:
                findings.add(problem_of(row), _answer(row), row)
            except DataError as error:
                raise error.at(path, number) from error
    return findings


def _answer(row: dict[str, Any]) -> str:
    inner = row.get("reward_model")
    value = inner.get("ground_truth") if isinstance(inner, dict) else row.get("label", row.get("answer"))
    return "" if value is None else str(value)


def describe(path: Path) -> Iterator[str]:
    """Yield the lines of the report."""
    check_file(path)
    if path.suffix == ".parquet":
        yield f"schema of {path}:"
        yield from (
            f"  {line}" for line in open_parquet(path).schema_arrow.to_string(show_schema_metadata=False).splitlines()
        )
    found = look(path)
    yield f"rows: {found.rows}, distinct problems: {len(found.answers)}, repeated: {found.rows - len(found.answers)}"
    yield f"problems with more than one answer: {len(found.conflicts)}"
    yield f"data_source: {_counts(found.sources)}"
    yield f"answer kinds: {_counts(found.kinds)}"
    if found.longest_prompt is not None:
        yield f"longest prompt: {found.longest_prompt} tokens"
    yield "problem length in characters:"
    yield from _histogram(found)
    yield from _card_lines(path)
    for i, (problem, answer) in enumerate(found.samples):
        yield f"sample {i}: {problem!r:.300} -> {answer!r}"


def _counts(counts: Counter) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _histogram(found: Findings) -> Iterator[str]:
    for name in (*(f"< {limit}" for limit in _BINS), f">= {_BINS[-1]}"):
        count = found.lengths[name]
        yield f"  {name:>7} {count:>9} {'#' * round(50 * count / found.rows)}"


def _card_lines(path: Path) -> Iterator[str]:
    card = read_card(path)
    if card is None:
        yield "card: none"
        return
    source, counts = card.content["source"], card.content["counts"]
    yield f"card: from {source['name']} (revision {source['revision']}), template {card.template}, sha256 {card.sha256}"
    yield f"card: {counts['rows_in']} rows in, dropped {counts['dropped'] or 'none'}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, 2 for a file that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m data_prep.inspect", description="Say what is in a data file.")
    parser.add_argument("file", type=Path, metavar="FILE", help="parquet, jsonl or csv")
    try:
        for line in describe(parser.parse_args(argv).file):
            print(line)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
