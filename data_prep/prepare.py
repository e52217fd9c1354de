"""Command line: `python -m data_prep.prepare SOURCE --out DIR [options]`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from data_prep.answers import KINDS
from data_prep.card import read_card
from data_prep.options import BAD_ROWS, CONFLICTS, LANGUAGES, Options
from data_prep.pipeline import prepare
from data_prep.sources import REGISTRY
from data_prep.templates import TEMPLATES

SHOWN = 10


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; its destinations are the fields of `Options`."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.prepare", description="Write the parquet that the trainer reads, and a card of it."
    )
    parser.add_argument("source", choices=list(REGISTRY))
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the parquet files and cards")
    parser.add_argument("--name", help="name of the one output, without .parquet")
    parser.add_argument("--data_source", help="label of the rows, instead of the source's own")
    parser.add_argument("--seed", type=int, default=0, help="of --holdout and of generated problems (default 0)")
    parser.add_argument("--train_batch_size", type=int, default=512, help="for the estimate of steps in the card")
    parser.add_argument("--overwrite", action="store_true", help="replace files that were made from another source")
    parser.add_argument("--no_progress", dest="progress", action="store_false", help="no progress bar")
    _add_input(parser.add_argument_group("input"))
    _add_rows(parser.add_argument_group("rows"))
    _add_prompts(parser.add_argument_group("prompts"))
    _add_arithmetic(parser.add_argument_group("sources arithmetic and word_problems"))
    return parser


def _add_input(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input", nargs="+", default=[], metavar="[SPLIT=]PATH", help="local files instead of the Hub; no network"
    )
    group.add_argument("--revision", default="main", help="branch, tag or commit on the Hub (default main)")
    group.add_argument("--problem_column", default="problem", help="source file: column, dotted for a struct's field")
    group.add_argument("--answer_column", default="answer", help="source file: column, dotted for a struct's field")
    group.add_argument("--answers", choices=KINDS, default="any", help="source file: what a gold may be")


def _add_rows(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--split", nargs="+", default=[], metavar="[NAME=]START:STOP", help="rows of the source, STOP not included"
    )
    group.add_argument("--holdout", type=int, default=0, metavar="N", help="N problems to NAME-holdout.parquet")
    group.add_argument("--lang", choices=LANGUAGES, default="all", help="en drops problems in another script")
    group.add_argument("--conflicts", choices=CONFLICTS, default="error", help="one problem with two answers")
    group.add_argument("--bad_rows", choices=BAD_ROWS, default="error", help="rows that cannot be used")
    group.add_argument("--keep_repeats", action="store_true", help="all rows of a DAPO-layout parquet, unchanged")
    group.add_argument(
        "--decontaminate", nargs="+", type=Path, default=[], metavar="FILE", help="drop what is in evaluation files"
    )


def _add_prompts(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--template", choices=list(TEMPLATES), default="answer", help="text around the problem")
    group.add_argument("--tokenizer", metavar="PATH", help="measure prompts with its chat template")
    group.add_argument("--max_prompt_tokens", type=int, metavar="N", help="drop longer prompts")
    group.add_argument(
        "--chat_template_kwargs", type=json.loads, default={}, metavar="JSON", help='such as {"enable_thinking": true}'
    )


def _add_arithmetic(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--train_rows", type=int, default=2000)
    group.add_argument("--test_rows", type=int, default=200)
    group.add_argument("--min_value", type=int, default=0, help="smallest operand")
    group.add_argument("--max_value", type=int, default=99, help="largest operand")
    group.add_argument("--operators", default="+", help="any of + - * (word_problems: + -), as one string")


def summary(path: Path) -> str:
    """Return what a user should know about a file that was just written."""
    card = read_card(path)
    assert card is not None, "a prepared file has its card"
    counts, steps = card.content["counts"], card.content["rollout_steps"]
    dropped = ", ".join(f"{count} {reason}" for reason, count in counts["dropped"].items()) or "none"
    lines = [f"{path}: {card.rows} rows of {counts['rows_in']} in; dropped: {dropped}"]
    if card.content["tokens"]:
        lines.append("  prompt tokens: " + ", ".join(f"{k} {v}" for k, v in card.content["tokens"].items()))
    lines.append(f"  one pass: {steps['one_pass']} rollout steps of {steps['train_batch_size']} prompts")
    lines += [f"  {kind}: {_some(entries)}" for kind, entries in card.content["listed"].items()]
    lines += [f"  warning: {text}" for text in card.content["warnings"]]
    return "\n".join(lines)


def _some(entries: list) -> str:
    more = f", and {len(entries) - SHOWN} more in the card" if len(entries) > SHOWN else ""
    return ", ".join(map(str, entries[:SHOWN])) + more


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, 2 for input or options that cannot be used."""
    try:
        for path in prepare(Options(**vars(build_parser().parse_args(argv)))):
            print(summary(path))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
