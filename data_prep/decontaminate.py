"""Problems that are in an evaluation file too: the same text, or 13 words in a row.

The same text means equal characters without case and white space, or, from 8 words on, equal words (so `12+34` and
`12*34` differ). Words are lower-case runs of letters or digits; a Chinese, Japanese or Korean character is a word. A
second set of 13-grams reads every number as one and the same word, so that a copy with other numbers is found; as
lists of numbers would then all be alike, such a gram counts only when 7 of its words have two letters or more.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from data_prep.errors import DataError
from data_prep.readers import read_chunks
from data_prep.sources.base import problem_text
from data_prep.text import normalise

N = 13
_LETTERS_NEEDED = 7
_WORDS_NEEDED = 8
_WORD = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\d+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PROBLEM_COLUMNS = ("extra_info.raw_problem", "prompt", "problem", "question")


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return _WORD.findall(text.lower())


def grams(found: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the 13-grams of a list of words, and those with numbers masked that have enough letters."""
    masked = ["0" if word.isdigit() else word for word in found]
    for i in range(len(found) - N + 1):
        yield tuple(found[i : i + N])
        window = masked[i : i + N]
        if sum(word.isalpha() and len(word) > 1 for word in window) >= _LETTERS_NEEDED:
            yield tuple(window)


class Contamination:
    """The words and 13-grams of evaluation problems; `reason` tells what a training problem shares with them."""

    def __init__(self, problems: Iterable[str]) -> None:
        self._exact: set[tuple[str, ...]] = set()  # of words, or of the one compact text
        self._grams: set[tuple[str, ...]] = set()
        for problem in problems:
            found = words(problem)
            self._exact.update(_whole(problem, found))
            self._grams.update(grams(found))

    def reason(self, problem: str) -> str | None:
        """Return `contaminated_exact`, `contaminated_13gram`, or None."""
        found = words(problem)
        if any(key in self._exact for key in _whole(problem, found)):
            return "contaminated_exact"
        return "contaminated_13gram" if any(gram in self._grams for gram in grams(found)) else None


def _whole(problem: str, found: list[str]) -> list[tuple[str, ...]]:
    compact = "".join(normalise(problem).lower().split())
    return [(compact,), tuple(found)] if len(found) >= _WORDS_NEEDED else [(compact,)]


def evaluation_problems(path: Path) -> Iterator[str]:
    """Yield the problems of an evaluation file, without their templates.

    The problem is `extra_info.raw_problem`, `prompt`, `problem` or `question`, the first one that a row has.

    Raises:
        DataError: a row has none of them; names file, row and columns.
    """
    for chunk in read_chunks(path, (), _PROBLEM_COLUMNS):
        for number, row in chunk.rows:
            try:
                yield problem_of(row)
            except DataError as error:
                raise error.at(path, number) from error


def problem_of(row: dict) -> str:
    """Return the problem of a row of any known layout, without its template.

    Raises:
        DataError: the row has none of the columns where a problem could be.
    """
    raw = (row.get("extra_info") or {}).get("raw_problem") if isinstance(row.get("extra_info"), dict) else None
    if raw:
        return problem_text(raw, "extra_info.raw_problem")[0]
    for name in _PROBLEM_COLUMNS[1:]:
        if row.get(name) is not None:
            return problem_text(row[name], name)[0]
    raise DataError(f"has none of the problem columns {', '.join(_PROBLEM_COLUMNS)}")
