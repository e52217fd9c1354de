"""Which files, and which of their rows, become which output."""

import re
from dataclasses import dataclass
from pathlib import Path

from data_prep import hub
from data_prep.errors import DataError
from data_prep.options import Options
from data_prep.sources.base import Source

_INPUT = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
_SLICE = re.compile(r"(?:([A-Za-z]\w*)=)?(\d+):(\d+)")


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` (not included; None is the end) of `paths`, which become `STEM.parquet` of a split.

    A generated source has no paths. `sliced` tells that not all rows were asked for.
    """

    split: str
    stem: str
    paths: tuple[Path, ...] = ()
    revision: str | None = None
    start: int = 0
    stop: int | None = None


def resolve(options: Options, source: Source) -> list[Part]:
    """Return the parts of a preparation in the order in which they are read, downloading what is on the Hub.

    Raises:
        DataError: an input, slice or name does not fit the source.
    """
    files = _from_input(options, source) if options.input else _published(options, source)
    parts = _sliced(options.split, files) if options.split else files
    if options.name:
        if len(parts) != 1:
            raise DataError(f"name={options.name!r} would name {len(parts)} files", remedy="Leave --name out")
        parts = [_with(parts[0], stem=options.name)]
    stems = [part.stem for part in parts]
    if len(set(stems)) < len(stems):
        raise DataError(f"two outputs have one name: {stems}", remedy="Name the slices, as in train=0:2000")
    return parts


def _with(part: Part, **changes) -> Part:
    return Part(**{**part.__dict__, **changes})


def _published(options: Options, source: Source) -> list[Part]:
    if source.repo is None:
        return [Part(name, split.stem) for name, split in source.splits.items()]
    found = []
    for name, split in source.splits.items():
        if options.split and name != _main_split(list(source.splits)):
            continue
        paths, revision = hub.fetch(source.repo, options.revision, split.hub_files)
        found.append(Part(name, split.stem, tuple(paths), revision))
    return found


def _from_input(options: Options, source: Source) -> list[Part]:
    if source.generate:
        raise DataError(f"source {options.source!r} makes its rows and reads no --input")
    paths: dict[str, list[Path]] = {}
    for text in options.input:
        split, path = _named(text, list(source.splits))
        if split not in source.splits:
            raise DataError(f"input {text!r} names the split {split!r}", remedy=f"Use one of {list(source.splits)}")
        paths.setdefault(split, []).append(path)
    return [Part(name, split.stem, tuple(paths[name])) for name, split in source.splits.items() if name in paths]


def _named(text: str, splits: list[str]) -> tuple[str, Path]:
    """Read `PATH` or `SPLIT=PATH`; a bare path takes the one split whose name is a word of its file name."""
    named = _INPUT.fullmatch(text)
    if named and not Path(text).exists():
        return named[1], Path(named[2])
    words = set(re.split(r"[^a-z]+", Path(text).stem.lower()))
    told = [split for split in splits if split in words]
    return told[0] if len(told) == 1 else _main_split(splits), Path(text)


def _main_split(splits: list[str]) -> str:
    return "train" if "train" in splits else splits[0]


def _sliced(slices: list[str], files: list[Part]) -> list[Part]:
    whole = next((part for part in files if part.split == _main_split([p.split for p in files])), files[0])
    if len(whole.paths) != 1:
        raise DataError(f"split={slices} needs one file to slice, not {len(whole.paths)}", remedy="Give one --input")
    parts = []
    for text in slices:
        found = _SLICE.fullmatch(text)
        if not found or int(found[2]) >= int(found[3]):
            raise DataError(f"split={text!r} is no slice", remedy="Write START:STOP or NAME=START:STOP, START < STOP")
        name, start, stop = found[1], int(found[2]), int(found[3])
        stem = name or f"{whole.stem}-{start}-{stop}"
        parts.append(_with(whole, split=name or whole.split, stem=stem, start=start, stop=stop))
    return parts
