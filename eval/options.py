"""The command line of `eval_aime24`."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from eval.client import Endpoint
from eval.grading import Grader
from reward.verdict import ANSWER_FORMATS, MODES

_KEY_VARIABLE = "VLLM_API_KEY"  # vLLM's server reads the same
_DEFAULT = "default: %(default)s"
_DESCRIPTION = "Evaluate a served model on a prepared parquet. The same command resumes what was interrupted."


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parsed command line; a wrong one ends the process with status 2."""
    parser = argparse.ArgumentParser(prog="eval_aime24", description=_DESCRIPTION)
    _what(parser)
    _where(parser)
    _after(parser)
    options = parser.parse_args(arguments)
    if options.regrade is None and options.test_file is None:
        parser.error("--test_file is missing")
    if options.regrade == "" and options.out is None:
        parser.error("--regrade needs a file, here or as --out")
    return options


def _what(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is asked")
    group.add_argument("--model", help="as served, its path, or its last folder's name; by default the one served")
    group.add_argument("--test_file", type=Path, help="parquet of data_prep; repeated problems count as samples")
    group.add_argument("--n", type=int, help="samples a problem; by default as often as the file repeats it")
    group.add_argument("--temperature", type=float, default=1.0, help=_DEFAULT)
    group.add_argument("--top_p", type=float, default=0.7, help=_DEFAULT)
    group.add_argument("--top_k", type=int, default=-1, help=f"-1: all tokens, whatever the model's own is; {_DEFAULT}")
    group.add_argument("--min_p", type=float, default=0.0, help=_DEFAULT)
    group.add_argument("--repetition_penalty", type=float, default=1.0, help=_DEFAULT)
    group.add_argument("--max_tokens", type=int, default=20480, help=f"response tokens; {_DEFAULT}")
    group.add_argument("--seed", type=int, default=0, help=f"every sample's own seed comes from it; {_DEFAULT}")
    group.add_argument("--system", help="system prompt")
    group.add_argument("--chat_template_kwargs", type=json_object, help='JSON, e.g. {"enable_thinking": true}')


def _where(parser: argparse.ArgumentParser) -> None:
    default = Endpoint()
    group = parser.add_argument_group("how it is asked")
    group.add_argument("--base_url", default=default.base_url, help=f"up to and including /v1; {_DEFAULT}")
    group.add_argument("--api_key", help=f"key that the server asks for; default: ${_KEY_VARIABLE}")
    group.add_argument(
        "--concurrency", type=_positive, default=default.concurrency, help=f"requests at one time; {_DEFAULT}"
    )
    group.add_argument(
        "--timeout", type=float, default=default.timeout_s, help=f"seconds from sending to the answer; {_DEFAULT}"
    )
    group.add_argument(
        "--retries", type=int, default=default.retries, help=f"repetitions of a failed request; {_DEFAULT}"
    )


def _after(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what becomes of the answers")
    group.add_argument(
        "--out", type=Path, help="NAME.jsonl of the samples; by default named by model, data and settings"
    )
    group.add_argument("--replace", action="store_true", help="delete samples of other settings instead of refusing")
    group.add_argument("--allow_missing", action="store_true", help="report although samples are missing")
    group.add_argument("--mode", default="strict", choices=MODES, help=f"rules of grading; {_DEFAULT}")
    group.add_argument(
        "--answer_format", default="answer", choices=ANSWER_FORMATS, help=f"what is read first; {_DEFAULT}"
    )
    group.add_argument("--thought_open", action="store_true", help="the chat template itself opens <think>")
    group.add_argument("--regrade", nargs="?", const="", metavar="FILE", help="grade a file again; needs no server")


def endpoint(options: argparse.Namespace) -> Endpoint:
    """The endpoint that the options name.

    Raises:
        ValueError: a limit makes no sense.
    """
    if options.retries < 0 or options.timeout <= 0:
        raise ValueError(f"--retries {options.retries} must be >= 0 and --timeout {options.timeout} > 0")
    url = options.base_url.rstrip("/")
    key = options.api_key or os.environ.get(_KEY_VARIABLE) or None
    return Endpoint(url, key, options.concurrency, options.timeout, options.retries)


def grader(options: argparse.Namespace) -> Grader:
    """The grader that the options name."""
    return Grader(options.mode, options.answer_format, options.thought_open)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def json_object(text: str) -> dict[str, Any]:
    """An option's value that is a JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON ({error})") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return value
