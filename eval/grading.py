"""Grades samples with `reward`, in worker processes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from reward.grade import grade
from reward.identity import verifier_id
from reward.verdict import ANSWER_FORMATS, MODES, check_choice

_MOST_WORKERS = 8
_CHUNK = 64
# In place of a verdict until there is one: no grader has this name, so the next look at the file grades the sample.
NOT_GRADED = {
    "correct": False,
    "pred": None,
    "parse_status": "none",
    "reason": "not_graded",
    "grading_error": True,
    "grader": None,
}


@dataclass(frozen=True)
class Grader:
    """How samples are graded; options as in `reward.grade.grade`."""

    mode: str = "strict"
    answer_format: str = "answer"
    thought_open: bool = False

    def __post_init__(self) -> None:
        """Refuse unknown modes and formats."""
        check_choice("mode", self.mode, MODES)
        check_choice("answer_format", self.answer_format, ANSWER_FORMATS)

    @property
    def name(self) -> str:
        """Mode, content hash of the verifier and options, as one string that results can be compared by."""
        return f"{verifier_id(self.mode)}/{self.answer_format}" + ("/thought_open" if self.thought_open else "")


def graded_text(line: dict[str, Any], mode: str) -> str:
    """What is graded of a sample: its text; its reasoning when the server put everything there.

    A server with a reasoning parser leaves `content` empty when the model never closed its thought. A thought that was
    cut by the token limit is unfinished, and only the `tutorial` mode, whose evaluation did so, reads it.
    """
    if line["text"] or (line.get("finish_reason") == "length" and mode != "tutorial"):
        return line["text"]
    return line.get("reasoning") or ""


def grade_line(line: dict[str, Any], grader: Grader) -> dict[str, Any]:
    """Fields of the verdict on one sample, to be merged into its line."""
    verdict = grade(
        graded_text(line, grader.mode),
        line["gold"],
        mode=grader.mode,
        finish_reason=line.get("finish_reason"),
        answer_format=grader.answer_format,
        thought_open=grader.thought_open,
    )
    return {
        "correct": bool(verdict.correct),
        "pred": verdict.pred,
        "parse_status": verdict.parse_status,
        "reason": verdict.reason,
        "grading_error": verdict.error,
        "grader": grader.name,
    }


def grade_lines(lines: Iterable[dict[str, Any]], grader: Grader, workers: int | None = None) -> list[dict[str, Any]]:
    """The lines, in order, each with its verdict.

    Raises:
        ValueError: a grading process was killed.
    """
    lines = list(lines)
    with worker_pool(workers) as pool:
        verdicts = pool.map(grade_line, lines, [grader] * len(lines), chunksize=_CHUNK)
        try:
            return [line | verdict for line, verdict in zip(lines, verdicts, strict=True)]
        except BrokenExecutor as error:
            raise ValueError("a grading process was killed, probably for memory; run the same command again") from error


def worker_pool(workers: int | None = None) -> ProcessPoolExecutor:
    """Processes that grade; they leave Ctrl-C to their parent and end with it, however it ends."""
    workers = workers or min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start_worker)


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
