"""First pass: raw rows to records. Each row is parsed, checked, compared and filtered, or dropped with a reason."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from data_prep.answers import canonical
from data_prep.decontaminate import Contamination
from data_prep.dedup import Dedup
from data_prep.errors import DataError
from data_prep.files import CHUNK, Chunk
from data_prep.grouping import FirstSeen
from data_prep.options import Options
from data_prep.parts import Part
from data_prep.readers import read_chunks
from data_prep.records import Record, messages
from data_prep.report import Report
from data_prep.sources.base import Source
from data_prep.text import gives_away, is_english
from data_prep.tokens import TokenCounter


@dataclass
class Collector:
    """What all parts of a preparation share: the problems seen so far and the filters."""

    options: Options
    source: Source
    contamination: Contamination | None = None
    tokens: TokenCounter | None = None
    dedup: Dedup = field(default_factory=Dedup)
    seen: FirstSeen = field(default_factory=FirstSeen)

    def records(self, part: Part, report: Report) -> Iterator[list[Record]]:
        """Yield the records of a part that are kept so far, a chunk at a time, and count the others in `report`.

        Raises:
            DataError: a row cannot be used and `bad_rows` is `error`, or a file cannot be read.
        """
        for path, chunk in self._chunks(part):
            report.rows_in += len(chunk.rows) + chunk.copies
            report.drop("duplicate", count=chunk.copies)
            kept = []
            for number, row in chunk.rows:
                record, template = self._parse(path, number, row, report) or (None, "")
                if record and self._keep(record, path, report):
                    report.recovered[template] += 1
                    kept.append(record)
            yield self._measured(kept, report)
        if report.rows_in == 0:
            raise DataError(f"rows {part.start}:{part.stop} hold no row", file=part.paths[0] if part.paths else None)

    def _chunks(self, part: Part) -> Iterator[tuple[Path | None, Chunk]]:
        if self.source.generate:
            rows = [(i, {"parsed": parsed}) for i, parsed in enumerate(self.source.generate(part.split))]
            yield from ((None, Chunk(rows[i : i + CHUNK])) for i in range(0, len(rows), CHUNK))
        for path in part.paths:
            columns, optional = self.source.columns, self.source.optional
            chunks = read_chunks(path, columns, optional, start=part.start, stop=part.stop, seen=self.seen)
            yield from ((path, chunk) for chunk in chunks)

    def _parse(self, path: Path | None, number: int, row: dict, report: Report) -> tuple[Record, str] | None:
        try:
            parsed = self.source.parse(row) if self.source.parse else row["parsed"]
            answer = canonical(parsed.answer, self.source.answers, self.source.answer_column)
        except DataError as error:
            if self.options.bad_rows == "error":
                raise error.at(path, number) from error
            report.drop("bad_row", {"source_index": number, "column": error.column, "problem": error.problem})
            return None
        record = Record(
            problem=parsed.problem,
            answer=answer,
            source_index=number,
            data_source=self.options.data_source or parsed.data_source or self.source.data_source,
            ability=parsed.ability or "MATH",
            style=parsed.style or self.source.style,
            solution=parsed.solution,
        )
        return record, parsed.template

    def _keep(self, record: Record, path: Path | None, report: Report) -> bool:
        english = self.options.lang == "all" or is_english(record.problem)
        reason = self.dedup.reason(record, path.name if path else "generated", english)
        if reason is None and not english:
            reason = "language"
        if reason is None and self.contamination:
            reason = self.contamination.reason(record.problem)
        if reason:
            report.drop(reason, record.source_index if reason.startswith("contaminated") else None)
        elif gives_away(record.problem, record.answer):
            report.note("gives_away_answer", record.source_index)
        return reason is None

    def _measured(self, records: list[Record], report: Report) -> list[Record]:
        if self.tokens is None:
            return records
        lengths = self.tokens.count([messages(record.problem, self.options.template) for record in records])
        limit, kept = self.options.max_prompt_tokens, []
        for record, length in zip(records, lengths, strict=True):
            record.prompt_tokens = length
            if limit is not None and length > limit:
                report.drop("too_long", {"source_index": record.source_index, "prompt_tokens": length})
            else:
                kept.append(record)
        return kept
