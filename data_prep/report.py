"""What happened to the rows of one part of a preparation."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

LISTED = 1000  # rows listed by reason at most; the counts go on


@dataclass
class Report:
    """Rows in, rows dropped by reason, and up to `LISTED` of them by row number for the reasons worth a look.

    `recovered` counts the problems kept in the first pass by the template they were found in.
    """

    rows_in: int = 0
    dropped: Counter = field(default_factory=Counter)
    listed: dict[str, list[Any]] = field(default_factory=dict)
    recovered: Counter = field(default_factory=Counter)

    def drop(self, reason: str, entry: Any = None, count: int = 1) -> None:
        """Count dropped rows, and list one when there is an `entry` for it."""
        if count:
            self.dropped[reason] += count
        if entry is not None:
            self.note(reason, entry)

    def note(self, kind: str, entry: Any) -> None:
        """List something by kind."""
        entries = self.listed.setdefault(kind, [])
        if len(entries) < LISTED:
            entries.append(entry)
