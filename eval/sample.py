"""Samples a model on a prepared parquet through vLLM, offline, and grades with `reward`.

    python -m eval.sample --model DIR --data test.parquet --out eval/before.jsonl -n 4

Same files as `eval_aime24` writes through a server: one JSON line a sample, `NAME.settings.json`, `NAME.summary.json`.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from eval.grading import Grader, grade_lines
from eval.options import json_object
from eval.problems import Message, Problem, read_problems
from eval.records import Line, SampleFile, sample_line, settings_path, summary_path, write_json
from eval.settings import Sampling, describe
from eval.summary import summarise
from eval.vllm_build import CPU_ENVIRONMENT, built_for_cpu
from reward.verdict import ANSWER_FORMATS, MODES


def load_engine(model: str, seed: int, tensor_parallel_size: int = 1, enforce_eager: bool = False) -> Any:
    """vLLM's `LLM` on GPUs, or on CPU cores where this vLLM was built for them."""
    on_cpu: dict[str, Any] = {}
    if built_for_cpu():
        for key, value in CPU_ENVIRONMENT.items():
            os.environ.setdefault(key, value)
        enforce_eager = True
        on_cpu = {"distributed_executor_backend": "uni"} if tensor_parallel_size == 1 else {}
    import vllm

    return vllm.LLM(
        model, seed=seed, tensor_parallel_size=tensor_parallel_size, enforce_eager=enforce_eager, dtype="auto", **on_cpu
    )


def generate(
    model: Path, prompts: list[list[Message]], sampling: Sampling, chat_template_kwargs: dict[str, Any] | None = None
) -> tuple[list[Any], str]:
    """vLLM's `RequestOutput` for every prompt, in order, and vLLM's version; tqdm shows the progress."""
    if not (model / "config.json").is_file():
        raise ValueError(f"{model} is not a Hugging Face model folder (no config.json): export the checkpoint first")
    llm = load_engine(str(model), sampling.seed, enforce_eager=True)
    import vllm

    messages: list[Any] = prompts
    parameters = vllm.SamplingParams(**sampling.as_settings())
    return llm.chat(messages, parameters, chat_template_kwargs=chat_template_kwargs), vllm.__version__


def lines_of(problems: list[Problem], outputs: list[Any]) -> list[Line]:
    """One line a sample, not graded yet."""
    return [
        sample_line(problem, sample.index, sample.text, sample.finish_reason, len(sample.token_ids))
        for problem, output in zip(problems, outputs, strict=True)
        for sample in output.outputs
    ]


def evaluate(
    model: Path,
    data: Path,
    out: Path,
    sampling: Sampling,
    grader: Grader,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Sample, grade, write `out`, its settings and its summary; return the summary.

    `out` is held, and its lines are read, before the engine starts: what is wrong with it costs no sampling.
    """
    problems, _ = read_problems(data)
    with SampleFile(out) as file:
        started = time.monotonic()
        outputs, version = generate(model, [p.messages for p in problems], sampling, chat_template_kwargs)
        seconds = time.monotonic() - started
        lines = grade_lines(lines_of(problems, outputs), grader)
        settings = describe(
            str(model), data, problems, sampling, vllm=version, chat_template_kwargs=chat_template_kwargs
        )
        summary = summarise(lines, len(problems), sampling.n) | {
            "settings": settings | {"grader": grader.name},
            "seconds": round(seconds, 1),
        }
        file.rewrite(lines)
        write_json(settings_path(out), settings)
        write_json(summary_path(out), summary)
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
    parser.add_argument("--chat_template_kwargs", type=json_object, help='JSON, e.g. {"enable_thinking": true}')
    parser.add_argument("--mode", default="strict", choices=MODES)
    parser.add_argument("--answer_format", default="answer", choices=ANSWER_FORMATS)
    args = parser.parse_args()
    try:
        sampling = Sampling(args.n, args.temperature, args.top_p, args.max_tokens, args.seed)
        grader = Grader(args.mode, args.answer_format)
        summary = evaluate(args.model, args.data, args.out, sampling, grader, args.chat_template_kwargs)
    except ValueError as error:
        parser.exit(2, f"error: {error}\n")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
