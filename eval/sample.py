"""Samples a model on a prepared parquet through vLLM, offline, and grades with `reward`.

    python -m eval.sample --model DIR --data test.parquet --out eval/before.jsonl -n 4

The JSONL holds one line a sample; beside it, `NAME.summary.json` has avg@k with its interval over problems.
"""

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from eval.metrics import avg_at_k, bootstrap_interval, maj_at_k, pass_at_k
from recipe.checkpoints import write_text_atomic
from reward.grade import grade
from reward.verdict import ANSWER_FORMATS, MODES


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters; `max_tokens` counts response tokens."""

    n: int = 4
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 64
    seed: int = 1


def read_problems(path: Path) -> list[dict[str, Any]]:
    """Rows of a prepared parquet as dicts with `prompt` (messages) and `gold`.

    Raises:
        ValueError: the file is missing, is not a parquet or lacks a column.
    """
    try:
        rows = pq.read_table(path, columns=["prompt", "reward_model"]).to_pylist()
        return [{"prompt": row["prompt"], "gold": row["reward_model"]["ground_truth"]} for row in rows]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: not a parquet of data_prep ({error}); write one with python -m data_prep.prepare"
        ) from error


def generate(model: Path, prompts: list[list[dict[str, str]]], sampling: Sampling) -> list[Any]:
    """vLLM's `RequestOutput` for every prompt, in order; tqdm shows the progress."""
    if not (model / "config.json").is_file():
        raise ValueError(f"{model} is not a Hugging Face model folder (no config.json): export the checkpoint first")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine in this process: quicker to start
    from vllm import LLM, SamplingParams
    from vllm.platforms import current_platform

    one_process = {"distributed_executor_backend": "uni"} if current_platform.is_cpu() else {}
    llm = LLM(str(model), seed=sampling.seed, enforce_eager=True, dtype="auto", **one_process)
    return llm.chat(prompts, SamplingParams(**asdict(sampling)))


def grade_outputs(problems: list[dict[str, Any]], outputs: list[Any], mode: str, answer_format: str) -> list[dict]:
    """One line a sample: text, finish reason, tokens, verdict and `pred`."""
    lines = []
    for index, (problem, output) in enumerate(zip(problems, outputs, strict=True)):
        for sample in output.outputs:
            verdict = grade(
                sample.text, problem["gold"], mode=mode, finish_reason=sample.finish_reason, answer_format=answer_format
            )
            lines.append(
                {
                    "problem": index,
                    "sample": sample.index,
                    "gold": problem["gold"],
                    "text": sample.text,
                    "finish_reason": sample.finish_reason,
                    "tokens": len(sample.token_ids),
                    "correct": bool(verdict.correct),
                    "pred": verdict.pred,
                    "parse_status": verdict.parse_status,
                }
            )
    return lines


def summarise(lines: list[dict], k: int) -> dict[str, Any]:
    """avg@k with a 95 % bootstrap interval over problems, pass@k, maj@k and the truncated share."""
    by_problem: dict[int, list[dict]] = {}
    for line in lines:
        by_problem.setdefault(line["problem"], []).append(line)
    correct = [[float(s["correct"]) for s in samples] for samples in by_problem.values()]
    low, high = bootstrap_interval([sum(c) / len(c) for c in correct])
    return {
        "mean": avg_at_k(correct),
        "low": low,
        "high": high,
        "problems": len(correct),
        "samples": k,
        f"pass@{k}": sum(pass_at_k(len(c), int(sum(c)), k) for c in correct) / len(correct),
        f"maj@{k}": sum(
            maj_at_k([s["pred"] for s in samples], [float(s["correct"]) for s in samples])
            for samples in by_problem.values()
        )
        / len(correct),
        "truncated_share": sum(line["finish_reason"] == "length" for line in lines) / len(lines),
        "mean_tokens": sum(line["tokens"] for line in lines) / len(lines),
    }


def evaluate(model: Path, data: Path, out: Path, sampling: Sampling, mode: str, answer_format: str) -> dict[str, Any]:
    """Sample, grade, write `out` and its summary; return the summary."""
    problems = read_problems(data)
    started = time.monotonic()
    outputs = generate(model, [p["prompt"] for p in problems], sampling)
    seconds = time.monotonic() - started
    lines = grade_outputs(problems, outputs, mode, answer_format)
    summary = summarise(lines, sampling.n) | {"sampling": asdict(sampling), "mode": mode, "seconds": round(seconds, 1)}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(out, "".join(json.dumps(line) + "\n" for line in lines))
    write_text_atomic(out.with_suffix(".summary.json"), json.dumps(summary, indent=1) + "\n")
    return summary


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Sample a model on a prepared parquet and grade the answers.")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("-n", "--n", type=int, default=Sampling.n, help="samples a problem")
    parser.add_argument("--temperature", type=float, default=Sampling.temperature)
    parser.add_argument("--top_p", type=float, default=Sampling.top_p)
    parser.add_argument("--max_tokens", type=int, default=Sampling.max_tokens)
    parser.add_argument("--seed", type=int, default=Sampling.seed)
    parser.add_argument("--mode", default="strict", choices=MODES)
    parser.add_argument("--answer_format", default="answer", choices=ANSWER_FORMATS)
    args = parser.parse_args()
    sampling = Sampling(args.n, args.temperature, args.top_p, args.max_tokens, args.seed)
    try:
        summary = evaluate(args.model, args.data, args.out, sampling, args.mode, args.answer_format)
    except ValueError as error:
        parser.exit(2, f"error: {error}\n")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
