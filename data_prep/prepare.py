"""Command line: `python -m data_prep.prepare SOURCE --out DIR [options]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from data_prep.records import Record, to_row
from data_prep.sources import arithmetic
from data_prep.templates import TEMPLATES
from data_prep.writer import AtomicFiles, RowWriter


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m data_prep.prepare", description=__doc__)
    parser.add_argument("source", choices=["arithmetic"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--template", choices=list(TEMPLATES), default="answer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train_rows", type=int, default=2000)
    parser.add_argument("--test_rows", type=int, default=200)
    parser.add_argument("--max_value", type=int, default=99)
    parser.add_argument("--operators", default="+")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    args = build_parser().parse_args(argv)
    with AtomicFiles() as files:
        for split, rows in (("train", args.train_rows), ("test", args.test_rows)):
            made = arithmetic.problems(args.seed, rows, args.max_value, operators=args.operators, split=split)
            path = args.out / f"{split}.parquet"
            writer = RowWriter(files.reserve(path), path)
            records = (Record(text, answer, i, "arithmetic") for i, (text, answer) in enumerate(made))
            writer.write(to_row(record, i, split, args.template) for i, record in enumerate(records))
            writer.close()
        files.commit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
