"""Offline inference: three questions in the style of AIME, the chat template, vLLM, the published sampling.

    python eval/infer.py --model BytedTsinghua-SIA/DAPO-Qwen-32B --tensor_parallel_size 8

Prints question, truth and output. Runs on CPU too, with a small model.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: the repository's packages are above it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from data_prep.templates import render
from eval.report.responses import visible
from eval.vllm_build import built_for_cpu
from recipe.cpu.environment import ENGINE

QUESTIONS = (
    ("Find the number of positive divisors of $2024^2$ that are multiples of $2024$.", "16"),
    ("Find the remainder when $7^{2024}$ is divided by $1000$.", "401"),
    (
        r"Find the number of ordered pairs $(a, b)$ of positive integers such that $\frac1a + \frac1b = \frac1{12}$.",
        "15",
    ),
)


def load_engine(model: str, seed: int, tensor_parallel_size: int) -> Any:
    """vLLM's `LLM` on GPUs, or on CPU cores where this vLLM was built for them."""
    on_cpu: dict[str, Any] = {}
    if built_for_cpu():
        for key, value in ENGINE.items():
            os.environ.setdefault(key, value)
        on_cpu = {"enforce_eager": True} | (
            {"distributed_executor_backend": "uni"} if tensor_parallel_size == 1 else {}
        )
    import vllm

    return vllm.LLM(model, seed=seed, tensor_parallel_size=tensor_parallel_size, dtype="auto", **on_cpu)


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Three questions, answered offline by vLLM.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--model", default="BytedTsinghua-SIA/DAPO-Qwen-32B", help="a folder or a name of the Hub")
    parser.add_argument("--tensor_parallel_size", type=int, help="GPUs; by default 8, and 1 on a CPU")
    parser.add_argument("--temperature", type=float, default=1.0, help=" ")
    parser.add_argument("--top_p", type=float, default=0.7, help=" ")
    parser.add_argument("--max_tokens", type=int, default=20480, help="response tokens")
    parser.add_argument("--seed", type=int, default=0, help=" ")
    options = parser.parse_args(arguments)
    from vllm import SamplingParams
    from vllm.platforms import current_platform

    devices = options.tensor_parallel_size or (1 if current_platform.is_cpu() else 8)
    llm = load_engine(options.model, options.seed, devices)
    sampling = SamplingParams(temperature=options.temperature, top_p=options.top_p, max_tokens=options.max_tokens)
    chats = [[{"role": "user", "content": render(question, "answer")}] for question, _ in QUESTIONS]
    for (question, truth), result in zip(QUESTIONS, llm.chat(chats, sampling), strict=True):
        print(f"Question: {question}\nTruth: {truth}\nOutput: {visible(result.outputs[0].text)}\n{'-' * 80}")


if __name__ == "__main__":
    main()
