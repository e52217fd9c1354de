"""One evaluation against a server: what is missing is asked, graded and appended."""

import asyncio
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.client import ChatClient, Reply, Unanswered, ask_all
from eval.grading import NOT_GRADED, Grader, grade_line, grade_lines
from eval.problems import Problem, with_system
from eval.progress import Progress
from eval.records import Key, Line, SampleFile, sample_line
from eval.settings import Sampling, sample_seed
from eval.summary import missing_keys

_GIVE_UP_AFTER = 20  # samples in a row, or as many as are asked at once


class ServerGone(Exception):
    """So many samples in a row were given up that the rest is not asked; the message is the last error."""


@dataclass
class Evaluation:
    """What is asked of which model. `failures` collects the last error of every sample given up."""

    model: str
    problems: list[Problem]
    sampling: Sampling
    grader: Grader
    system: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    failures: dict[Key, str] = field(default_factory=dict)
    _in_a_row: int = 0

    def missing(self, file: SampleFile) -> list[Key]:
        """Keys to ask: first samples of all problems first, so that an interrupted run says something about each."""
        keys = missing_keys(file.lines.values(), len(self.problems), self.sampling.n)
        return sorted(keys, key=lambda key: (key[1], key[0]))

    async def run(self, client: ChatClient, file: SampleFile, pool: Executor, progress: Progress) -> None:
        """Ask, grade and append every missing sample.

        Raises:
            Refused: the server says 4xx.
            ServerGone: nothing was answered for a while, all retries included.
        """

        async def handle(key: Key) -> None:
            try:
                reply = await client.ask(self.body(key))
            except Unanswered as error:
                self._give_up(key, str(error), client.endpoint.concurrency)
                progress.failed()
                return
            self._in_a_row = 0
            line = await self._graded(self.line(key, reply), pool, file)
            file.append(line)
            progress.answered(line)

        await ask_all(self.missing(file), handle, client.endpoint.concurrency)

    def body(self, key: Key) -> dict[str, Any]:
        """Request of one sample."""
        problem = self.problems[key[0]]
        body = {
            "model": self.model,
            "messages": with_system(problem.messages, self.system),
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "max_tokens": self.sampling.max_tokens,
            "seed": sample_seed(self.sampling.seed, problem.digest, key[1]),
            "top_k": self.sampling.top_k,
            "min_p": self.sampling.min_p,
            "repetition_penalty": self.sampling.repetition_penalty,
        }
        return body | ({"chat_template_kwargs": self.chat_template_kwargs} if self.chat_template_kwargs else {})

    def line(self, key: Key, reply: Reply) -> Line:
        """Line of one answered sample, without its verdict."""
        line = sample_line(self.problems[key[0]], key[1], reply.text, reply.finish_reason, reply.completion_tokens)
        return line | {
            "reasoning": reply.reasoning,
            "prompt_tokens": reply.prompt_tokens,
            "system_fingerprint": reply.system_fingerprint,
            "latency_s": round(reply.latency_s, 3),
            "attempts": reply.attempts,
        }

    async def _graded(self, line: Line, pool: Executor, file: SampleFile) -> Line:
        """The line with its verdict. One whose grader died, or that was interrupted, is kept to be graded later."""
        try:
            verdict = await asyncio.get_running_loop().run_in_executor(pool, grade_line, line, self.grader)
        except BrokenExecutor:
            return line | NOT_GRADED
        except asyncio.CancelledError:
            file.append(line | NOT_GRADED)
            raise
        return line | verdict

    def _give_up(self, key: Key, error: str, concurrency: int) -> None:
        self.failures[key] = error
        self._in_a_row += 1
        if self._in_a_row >= max(concurrency, _GIVE_UP_AFTER):
            raise ServerGone(error)


def regrade(file: SampleFile, grader: Grader, always: bool = False) -> int:
    """Grade the samples that another verifier, or other options, graded, and rewrite the file; return how many."""
    old = [key for key, line in file.lines.items() if always or line.get("grader") != grader.name]
    if old:
        fresh = grade_lines([file.lines[key] for key in old], grader)
        file.rewrite((file.lines | dict(zip(old, fresh, strict=True))).values())
    return len(old)


def check_problems(file: SampleFile, problems: list[Problem]) -> None:
    """Refuse a file whose samples are of other problems.

    Raises:
        ValueError: names the first such sample.
    """
    for (index, sample), line in file.lines.items():
        if index >= len(problems) or line.get("digest", problems[index].digest) != problems[index].digest:
            raise ValueError(
                f"{file.path}: problem {index}, sample {sample} is of another problem than in the test file; give that "
                "test file again, or another --out"
            )


def served_name(cards: list[dict[str, Any]], model: str | None) -> tuple[str, str]:
    """Name to ask for, and the model it stands for (its `root`), among the cards of `/v1/models`.

    A model is found under its name, its root (the path it was loaded from) or its last folder's name. A folder that is
    here is not taken for one that was loaded from another path, whatever the names.

    Raises:
        ValueError: it is not served, or none was named and several are served; says what is served.
    """
    roots = {str(card["id"]): str(card.get("root") or card["id"]) for card in cards}
    served = ", ".join(roots) or "nothing"
    if model is None:
        if len(set(roots.values())) != 1:
            raise ValueError(f"the server serves {served}; choose with --model")
        name = next(iter(roots))
        return name, roots[name]
    last = model.rstrip("/").rsplit("/", 1)[-1]
    wanted = (model, model.rstrip("/"), last)
    if Path(model).is_dir():
        loaded = {name: Path(root).resolve() for name, root in roots.items() if Path(root).is_absolute()}
        if same := [name for name, path in loaded.items() if path == Path(model).resolve()]:
            name = next((name for name in wanted if name in same), same[0])
            return name, roots[name]
        roots = {name: root for name, root in roots.items() if name not in loaded}
    for name in wanted:
        if name in roots:
            return name, roots[name]
    for name, root in roots.items():
        if root == model or last in (name.rsplit("/", 1)[-1], root.rsplit("/", 1)[-1]):
            return name, root
    raise ValueError(f"--model {model} is not served; the server serves {served}")
