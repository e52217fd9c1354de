"""What a campaign has done so far, in one file: it may be ended at any moment, and the same command goes on."""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recipe.provenance import write_text_atomic


class OtherCampaign(ValueError):
    """The folder belongs to another campaign, or to one that is running; the message says what to do."""


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a campaign's folder inside the block; a process that is killed lets it go.

    Raises:
        OtherCampaign: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OtherCampaign(f"a campaign is running in {folder}: wait for it, or take another --folder") from error
        yield


class Ledger:
    """Records of faults by state: `pending` are done and wait for a start that shows whether they are overcome.

    `records` are judged; `lost_before` were lost and then done again (`forget_losses`). `segments` are the names of the
    shared-memory segments that were there before the last start.
    """

    def __init__(self, path: Path, plan: dict[str, Any]):
        """Read what is there.

        Args:
            path: the file.
            plan: what the campaign is, JSON types only: numbers of faults mean nothing under another.

        Raises:
            OtherCampaign: the file is of another plan.
        """
        self._path, self._plan = path, plan
        self.records: list[dict[str, Any]] = []
        self.pending: list[dict[str, Any]] = []
        self.lost_before: list[dict[str, Any]] = []
        self.segments: list[str] | None = None
        self._before = 0
        if path.is_file():
            self._read(json.loads(path.read_text()))

    def _read(self, stored: dict[str, Any]) -> None:
        if stored["plan"] != self._plan:
            flags = " ".join(f"--{key} {stored['plan'][key]}" for key in ("count", "seed", "kinds"))
            raise OtherCampaign(f"{self._path} is of another campaign: go on with {flags}, or take another --folder")
        self.records, self.pending, self.lost_before = stored["records"], stored["pending"], stored["lost_before"]
        self.segments = stored["segments"]
        self._before = len(self.records) + len(self.pending)

    @property
    def done(self) -> set[int]:
        """Numbers of the faults that were done."""
        return {record["number"] for record in [*self.records, *self.pending]}

    def starts(self, segments: set[Path]) -> None:
        """Another start begins, with these shared-memory segments there."""
        self.segments = sorted(path.name for path in segments)
        self._save()

    def add(self, record: dict[str, Any]) -> None:
        """A fault was done."""
        self.pending.append(record)
        self._save()

    def settle(
        self, problems: list[str], resumed_from: int, seconds: float | None, carried: int = 0
    ) -> list[dict[str, Any]]:
        """A start has shown what became of the pending faults, or never will; return their records."""
        settled, self.pending = self.pending, []
        for record in settled:
            record["problems"] += problems
            record |= {"resumed_from": resumed_from, "seconds_to_recover": seconds, "carried": carried}
        self.records += settled
        self._save()
        return settled

    def forget_losses(self) -> None:
        """Let the faults that were lost be done again; what was lost stays in the file."""
        self.lost_before += [record for record in self.records if record["problems"]]
        self.records = [record for record in self.records if not record["problems"]]
        self._before = len(self.records) + len(self.pending)
        self._save()

    def in_trouble(self, losses: int = 3) -> bool:
        """Whether the last faults since the file was read all have problems."""
        recent = [*self.records, *self.pending][self._before :][-losses:]
        return len(recent) == losses and all(record["problems"] for record in recent)

    def _save(self) -> None:
        content: dict[str, Any] = {"plan": self._plan, "records": self.records, "pending": self.pending}
        content |= {"lost_before": self.lost_before, "segments": self.segments}
        write_text_atomic(self._path, json.dumps(content, indent=1) + "\n")
