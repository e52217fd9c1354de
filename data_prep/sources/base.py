"""What a source is: files on the Hub or generated rows, and how to read a problem and its answer out of a raw row."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.templates import recover


class Parsed(NamedTuple):
    """A problem without any template, its gold as the source spells it, and labels that replace the source's own."""

    problem: str
    answer: Any
    data_source: str | None = None
    ability: str | None = None
    style: str | None = None
    template: str = "none"  # the wrap that the problem was recovered from
    solution: str | None = None  # the working, without the answer line


@dataclass(frozen=True)
class Split:
    """One split of a source: the name of the file it becomes, and the patterns of its files on the Hub."""

    stem: str
    hub_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A source that `data_prep.prepare` can read.

    `splits` are handled in their order, and of the same problem in two splits the first is kept: name the evaluation
    split first. A source has either `parse` (rows of files with `columns`) or `generate` (split name to problems).
    """

    data_source: str
    splits: dict[str, Split]
    columns: tuple[str, ...] = ()
    parse: Callable[[dict[str, Any]], Parsed] | None = None
    optional: tuple[str, ...] = ()
    repo: str | None = None
    answer_column: str = "answer"  # for error messages
    answers: str = "integer"
    style: str = "rule"
    generate: Callable[[str], Iterator[Parsed]] | None = None
    pinned: dict[str, str] = field(default_factory=dict)


def generated(data_source: str, options: Options, problems: Callable[..., Iterable[Parsed]]) -> Source:
    """Return a source whose problems are made up by `problems(seed, count, split=..., **choice)`.

    Row counts, operands and operators are those of the options; a split without rows does not exist.
    """
    rows = {"test": options.test_rows, "train": options.train_rows}
    choice = {name: getattr(options, name) for name in ("min_value", "max_value", "operators")}

    def generate(split: str) -> Iterator[Parsed]:
        yield from problems(options.seed, rows[split], split=split, **choice)

    splits = {split: Split(split) for split, count in rows.items() if count}
    return Source(data_source=data_source, splits=splits, generate=generate)


def problem_text(value: Any, column: str) -> tuple[str, str]:
    """Return `(problem, template)` of a cell that holds text, or chat messages with one user turn.

    Raises:
        DataError: it holds neither, or an empty problem; names the column.
    """
    text = _user_turn(value, column) if isinstance(value, list) else value
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"needs a problem (text, or messages), has {value!r:.80}", column=column)
    problem, template = recover(text)
    if not problem:
        raise DataError(f"holds a prompt around no problem: {text!r:.80}", column=column)
    return problem, template


def _user_turn(messages: list[Any], column: str) -> Any:
    turns = [m for m in messages if isinstance(m, dict) and m.get("role") == "user"]
    if len(messages) != 1 or len(turns) != 1:
        raise DataError(f"needs exactly one message, of the user, has {messages!r:.80}", column=column)
    return turns[0].get("content")


def from_columns(problem: str, answer: str, clean: Callable[[str], str] | None = None) -> Callable[[dict], Parsed]:
    """Return a `parse` for rows with a problem column and an answer column (dotted for a field of a struct).

    `clean` takes the answer cell, when it is text, to the gold.
    """

    def parse(row: dict[str, Any]) -> Parsed:
        text, template = problem_text(cell(row, problem), problem)
        gold = cell(row, answer)
        return Parsed(text, clean(gold) if clean and isinstance(gold, str) else gold, template=template)

    return parse


def cell(row: dict[str, Any], path: str) -> Any:
    """Return the value of a column, or of a field of a struct such as `reward_model.ground_truth`.

    Raises:
        DataError: a struct on the way has no such field.
    """
    value: Any = row
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            raise DataError(f"has no {name!r}", column=path)
        value = value[name]
    return value
