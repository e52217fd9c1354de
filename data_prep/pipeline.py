"""A whole preparation: parts to records to parquet files with cards, all of them or none."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from heapq import nsmallest
from pathlib import Path

from tqdm import tqdm

from data_prep import card
from data_prep.card_content import Output, card_content
from data_prep.collect import Collector
from data_prep.decontaminate import Contamination, evaluation_problems
from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.parts import Part, resolve
from data_prep.passthrough import copy_rows
from data_prep.records import Record, to_row
from data_prep.report import Report
from data_prep.sources import REGISTRY
from data_prep.sources.base import Source
from data_prep.spool import Spool
from data_prep.text import digest, holdout_rank
from data_prep.tokens import TokenCounter
from data_prep.writer import AtomicFiles, RowWriter, atomic_files

CONFLICTS_SHOWN = 20


def prepare(options: Options, registry: Mapping[str, Callable[[Options], Source]] = REGISTRY) -> list[Path]:
    """Write the parquet files and cards that `options` ask for; return the paths of the parquet files.

    Raises:
        DataError: input or options cannot be used, or a file cannot be written. No existing file has changed then.
    """
    if options.source not in registry:
        raise DataError(f"source={options.source!r} is unknown", remedy=f"Use one of {', '.join(registry)}")
    source = registry[options.source](options)
    parts = resolve(options, source)
    with atomic_files() as files, ThreadPoolExecutor(1) as pool:
        paths = dict.fromkeys(path for part in parts for path in part.paths)
        hashes = {path: pool.submit(card.sha256_of, path) for path in paths if path.is_file()}  # beside the main work
        outputs = (
            _copied(options, source, parts, files) if options.keep_repeats else _made(options, source, parts, files)
        )
        if not options.overwrite:
            _check_replaceable(options, outputs)
        written = {output.path.name: output.rows for output in outputs}
        for output in outputs:
            inputs = [(path.name, hashes[path].result()) for path in output.part.paths]
            content = card_content(options, source, output, inputs, written)
            files.text(card.card_path(output.path), card.dump(content))
        files.commit()
    return [output.path for output in outputs]


def _check_replaceable(options: Options, outputs: list[Output]) -> None:
    """See that no output would replace one of another source; of the same source, other options are a new version."""
    for path in (output.path for output in outputs):
        made_from = card.source_of(path)
        if made_from not in (None, options.source):
            raise DataError(
                f"was made from the source {made_from}, {options.source} would replace it",
                file=path,
                remedy="Choose another --out or --name, or give --overwrite",
            )


def _made(options: Options, source: Source, parts: list[Part], files: AtomicFiles) -> list[Output]:
    contamination = Contamination(p for path in options.decontaminate for p in evaluation_problems(path))
    tokens = TokenCounter(options.tokenizer, options.chat_template_kwargs) if options.tokenizer else None
    collector = Collector(options, source, contamination if options.decontaminate else None, tokens)
    spools = [_collected(options, part, collector, files) for part in parts]
    if collector.dedup.conflicts and options.conflicts == "error":
        raise _conflict_error(collector)
    dropped = set(collector.dedup.conflicts) if options.conflicts == "drop" else set()
    return [
        output
        for part, (spool, report) in zip(parts, spools, strict=True)
        for output in _written(options, part, _without(spool, dropped, report), report, parts, files)
    ]


def _collected(options: Options, part: Part, collector: Collector, files: AtomicFiles) -> tuple[Spool, Report]:
    output, report = options.out / f"{part.stem}.parquet", Report()
    spool = Spool(files.scratch(output, "spool"), output)
    with tqdm(desc=part.stem, unit=" rows", unit_scale=True, disable=None if options.progress else True) as bar:
        for chunk in collector.records(part, report):
            for record in chunk:
                spool.add(record)
            bar.update(report.rows_in - bar.n)
    spool.close()
    return spool, report


def _conflict_error(collector: Collector) -> DataError:
    conflicts = collector.dedup.conflicts
    shown = "\n  ".join(" against ".join(seen) for seen in collector.dedup.listed(CONFLICTS_SHOWN))
    more = len(conflicts) - CONFLICTS_SHOWN
    return DataError(
        f"{len(conflicts)} problems come with more than one answer:\n  {shown}" + (f"\n  and {more} more" * (more > 0)),
        remedy="Mend the source, or choose --conflicts drop or --conflicts keep_first",
    )


def _without(spool: Spool, dropped: set[bytes], report: Report) -> Callable[[], Iterator[Record]]:
    """Return what gives the records that are in no conflict; the others are counted once."""
    if dropped:
        report.drop("conflict", count=sum(digest(record.problem) in dropped for record in spool))
    return lambda: (record for record in spool if not dropped or digest(record.problem) not in dropped)


def _written(
    options: Options,
    part: Part,
    records: Callable[[], Iterable[Record]],
    report: Report,
    parts: list[Part],
    files: AtomicFiles,
) -> list[Output]:
    held = _holdout(options, records) if options.holdout and part is _trained(parts) else set()
    main = _output(options, part, part.stem, part.split, report, files)
    _fill(options, main, (record for record in records() if record.source_index not in held))
    if not held:
        return [main]
    other = _output(options, part, f"{part.stem}-holdout", "holdout", report, files)
    _fill(options, other, (record for record in records() if record.source_index in held))
    return [main, other]


def _trained(parts: list[Part]) -> Part:
    return next((part for part in parts if part.split == "train"), parts[0])


def _holdout(options: Options, records: Callable[[], Iterable[Record]]) -> set[int]:
    """Return the rows to hold out: those whose problem ranks lowest, so that other rows hardly change the choice."""
    ranked = nsmallest(options.holdout, ((holdout_rank(r.problem, options.seed), r.source_index) for r in records()))
    return {row for _, row in ranked}


def _output(options: Options, part: Part, stem: str, split: str, report: Report, files: AtomicFiles) -> Output:
    path = options.out / f"{stem}.parquet"
    return Output(path, files.reserve(path), split, part, report)


def _fill(options: Options, output: Output, records: Iterable[Record]) -> None:
    writer = RowWriter(output.temporary, output.path)
    for index, record in enumerate(records):
        writer.write([to_row(record, index, output.split, options.template)])
        if record.prompt_tokens is not None:
            output.lengths.append(record.prompt_tokens)
    writer.close()
    output.rows = writer.rows
    if not writer.rows:
        raise DataError(f"no row is left for it, dropped: {dict(output.report.dropped)}", file=output.path)


def _copied(options: Options, source: Source, parts: list[Part], files: AtomicFiles) -> list[Output]:
    outputs = []
    for part in parts:
        output = _output(options, part, part.stem, part.split, Report(), files)
        output.rows = output.report.rows_in = copy_rows(source, part, output.temporary, output.path)
        outputs.append(output)
    return outputs
