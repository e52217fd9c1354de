"""One row for each normalised problem, and the problems that come with two answers."""

from dataclasses import dataclass, field
from itertools import islice
from sys import intern
from typing import NamedTuple

from data_prep.records import Record
from data_prep.text import digest


class Seen(NamedTuple):
    """The first row of a problem."""

    answer: str
    file: str
    row: int

    def __str__(self) -> str:
        """Return the answer and where it stands."""
        return f"{self.answer} ({self.file} row {self.row})"


@dataclass
class Dedup:
    """Remembers problems by digest over all parts of a preparation."""

    first: dict[bytes, Seen] = field(default_factory=dict)
    conflicts: dict[bytes, list[Seen]] = field(default_factory=dict)

    def reason(self, record: Record, file: str, wanted: bool = True) -> str | None:
        """Return why a record is left out: `duplicate`, `conflict` (another answer than the first row's), or None.

        A problem that is not `wanted`, whatever its answer, makes no conflict: all of its rows go anyway.
        """
        key = digest(record.problem)
        seen = self.first.get(key)
        if seen is None:
            self.first[key] = Seen(intern(record.answer), file, record.source_index)
            return None
        if seen.answer == record.answer or not wanted:
            return "duplicate"
        self.conflicts.setdefault(key, [seen]).append(Seen(record.answer, file, record.source_index))
        return "conflict"

    def listed(self, limit: int) -> list[list[str]]:
        """Return up to `limit` conflicts, each as texts `answer (file row)`."""
        return [list(map(str, seen)) for seen in islice(self.conflicts.values(), limit)]
