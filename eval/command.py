"""What `eval_aime24` does, from its options to its exit status."""

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval.client import ChatClient, Unanswered
from eval.evaluate import Evaluation, ServerGone, check_problems, regrade, served_name
from eval.grading import Grader, worker_pool
from eval.options import endpoint, grader, parse
from eval.problems import Problem, digest_of, read_problems, samples_a_problem
from eval.progress import Progress
from eval.records import Key, SampleFile, read_settings, settings_path, summary_path, write_json
from eval.settings import SAME_FILE, Sampling, describe, differences
from eval.summary import Incomplete, missing_keys, summarise, table
from recipe.provenance import commit

OK, MISSING, WRONG, INTERRUPTED = 0, 1, 2, 130
_LISTED = 20  # missing samples named on the screen; the summary has all


def main(arguments: list[str] | None = None) -> int:
    """Command line: 0 when every sample is there, 1 when some are missing, 2 when it cannot work, 130 on Ctrl-C."""
    options = parse(arguments)
    try:
        return regrade_file(options) if options.regrade is not None else asyncio.run(evaluate(options))
    except (ValueError, Unanswered, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; what was answered is kept, the same command goes on from there", file=sys.stderr)
        return INTERRUPTED


async def evaluate(options: argparse.Namespace) -> int:
    """Ask what is missing, grade, append, summarise."""
    problems, rows = read_problems(options.test_file)
    n = samples_a_problem(rows, options.n)
    asked = ("temperature", "top_p", "max_tokens", "seed", "top_k", "min_p", "repetition_penalty")
    sampling = Sampling(n, **{name: getattr(options, name) for name in asked})
    with _cancelled_by_signals():
        async with ChatClient(endpoint(options)) as client:
            cards = await client.models()
            name, root = served_name(cards, options.model)
            asked_with = {"system": options.system, "chat_template_kwargs": options.chat_template_kwargs}
            version = await client.version()
            settings = describe(root, options.test_file, problems, sampling, vllm=version, **asked_with)
            out = options.out or _default_out(settings, options.test_file)
            _say(f"{name} ({root}) at {client.endpoint.base_url}, vLLM {settings['vllm']}; samples go to {out}")
            with SampleFile(out) as file:
                _prepare(file, settings, problems, grader(options), options.replace)
                run = Evaluation(name, problems, sampling, grader(options), **asked_with)
                await _ask(run, client, file)
                regrade(file, grader(options))
                return conclude(file, len(problems), n, grader(options), options.allow_missing, run.failures)


async def _ask(run: Evaluation, client: ChatClient, file: SampleFile) -> None:
    total = len(run.problems) * run.sampling.n
    missing = set(run.missing(file))
    _say(f"{total - len(missing)} of {total} samples are there already")
    if not missing:
        return
    done = [line for (p, s), line in file.lines.items() if s < run.sampling.n]
    progress = Progress(total, run.sampling.n, done)
    try:
        with worker_pool() as pool:
            await run.run(client, file, pool, progress)
    except ServerGone as error:
        _say(f"the server stopped answering, the rest is not asked: {error}")
    finally:
        progress.close()


def _prepare(
    file: SampleFile, settings: dict[str, Any], problems: list[Problem], grader: Grader, replace: bool
) -> None:
    """See that new samples belong to those that are there, and store the settings."""
    old = read_settings(file.path)
    if file.lines and (changed := differences(old, settings, SAME_FILE)):
        others = f"{file.path} holds samples of other settings (there and now: {'; '.join(changed)})"
        if not replace:
            raise ValueError(f"{others}; give those again, another --out, or --replace to delete them")
        _say(f"{others}; they are deleted")
        file.rewrite([])
    check_problems(file, problems)
    summary_path(file.path).unlink(missing_ok=True)
    write_json(settings_path(file.path), settings)
    if file.lines and (count := regrade(file, grader)):
        _say(f"{count} samples that were graded otherwise are graded by {grader.name}")


def regrade_file(options: argparse.Namespace) -> int:
    """Grade all samples of a file again, with nothing but the file."""
    path = Path(options.regrade or options.out)
    if not path.is_file():
        raise ValueError(f"--regrade: {path} does not exist")
    with SampleFile(path) as file:
        if not file.lines:
            raise ValueError(f"{path} has no samples")
        settings = read_settings(path)
        problems = settings.get("problems") or 1 + max(problem for problem, _ in file.lines)
        n = options.n or settings.get("n") or 1 + max(sample for _, sample in file.lines)
        regrade(file, grader(options), always=True)
        return conclude(file, problems, n, grader(options), options.allow_missing, {})


def conclude(
    file: SampleFile, problems: int, n: int, grader: Grader, allow_missing: bool, failures: dict[Key, str]
) -> int:
    """Write the summary, print the table or what is missing, and return the exit status."""
    lines = list(file.lines.values())
    missing = [[p, s, failures.get((p, s), "not asked")] for p, s in missing_keys(lines, problems, n)]
    summary: dict[str, Any] = {
        "complete": not missing,
        "settings": read_settings(file.path) | {"grader": grader.name, "n": n},
        "graded_at_commit": commit(),
        "server_fingerprints": sorted({line["system_fingerprint"] for line in lines if line.get("system_fingerprint")}),
        "missing_samples": missing,
    }
    _list_missing(missing)
    try:
        summary = summarise(lines, problems, n, allow_missing) | summary
    except Incomplete as error:
        print(f"error: {error}", file=sys.stderr)
        return MISSING
    finally:
        write_json(summary_path(file.path), summary)
    print(table(summary))
    print(f"graded by {grader.name}; samples: {file.path}, summary: {summary_path(file.path)}")
    return OK


def _list_missing(missing: list[list[Any]]) -> None:
    for problem, sample, error in missing[:_LISTED]:
        _say(f"missing: problem {problem}, sample {sample}: {error}")
    if len(missing) > _LISTED:
        _say(f"... and {len(missing) - _LISTED} more missing samples; the summary lists them")


def _default_out(settings: dict[str, Any], test_file: Path) -> Path:
    """A name that the same command finds again and another one does not."""
    model = Path(settings["model"]).name
    return Path("outputs/eval") / f"{model}-{test_file.stem}-{digest_of({k: settings[k] for k in SAME_FILE})[:8]}.jsonl"


@contextlib.contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM cancel the running task, which then closes its files in order."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
