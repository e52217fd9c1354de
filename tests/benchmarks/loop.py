"""Benchmark: `python -m tests.benchmarks.loop [--steps N] [--seed S] [--json FILE]`.

Trains the tiny recipe on CPU from the same data, base model and seed in two ways, and then asks vLLM alone for the
same kind of requests:

    ours        as shipped
    verl        stock V1 on our CPU platform: its own sampler, agent loop, reward manager and policy loss, and workers
                that are no forks
    bare vLLM   the base model, as many prompts x samples as one step of ours sent, in one offline call, each prompt
                with a seed of its own and log probabilities in the same form as in ours

The learning rate is 1e-9 in both trainings, so that every step of every arm has the answers of the base model. Our
engine leaves a core to the rest of the loop; bare vLLM has them all, and then as many as ours (`engine_threads`).

The last line is one JSON object. `step_speedup_vs_stock` and `gen_speedup_vs_stock` compare medians without the first
step; `rollout_over_bare_vllm` compares tokens a second of our rollout phase, all groups counted, with bare vLLM.
`seconds_to_first_step` is from the command of the training, not of the loop around it, to the start of step 1. Samples
and tokens a second of an arm are those that it trained, over its steps.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from recipe.metrics_log import read_steps
from tests.benchmarks.sampler import ROOT, SAMPLERS, STILL, figures, make_base, medians, samples, train

STOCK = [
    *SAMPLERS["verl_builtin"],
    "actor_rollout_ref.rollout.agent.agent_loop_manager_class=null",
    "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent",
    "actor_rollout_ref.actor.policy_loss.loss_mode=vanilla",
    "reward.reward_manager.source=register",
    "reward.reward_manager.name=dapo",
    f"ray_kwargs.ray_init.runtime_env.py_executable={sys.executable}",  # each worker imports for itself
]
SHOWN = ("gen", "old_log_prob", "adv", "update_actor", "update_weights", "step")


def as_math_dapo(path: Path) -> None:
    """Call the data's source `math_dapo`, so that verl's own reward manager knows how to grade it."""
    table = pq.read_table(path)
    column = table.column_names.index("data_source")
    pq.write_table(table.set_column(column, "data_source", pa.array(["math_dapo"] * len(table))), path)


def arm(run_dir: Path, began: float) -> dict[str, Any]:
    """What `sampler.figures` says of a run, seconds of each phase, rates, and seconds from `began` to step 1."""
    found = figures(run_dir)
    trained, tokens = trained_a_step(run_dir)
    first = min((run_dir / "rollouts").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    return found | {
        "phases_s": medians(run_dir, [f"timing_s/{name}" for name in SHOWN]),
        "samples_per_s": round(trained / found["step_s"], 1),
        "tokens_per_s": round(tokens / found["step_s"]),
        # the dump of step 1 is written once the step is over
        "seconds_to_first_step": round(first.stat().st_mtime - began - found["all_step_s"][0], 1),
    }


def trained_a_step(run_dir: Path) -> tuple[float, float]:
    """Medians without the first step: samples that were trained, and the tokens of their answers."""
    steps = {step: data for step, data in read_steps(run_dir / "metrics").items() if step > 1}
    counts = {step: samples(run_dir / "rollouts" / f"{step}.jsonl") for step in steps}
    return median(counts.values()), median(counts[step] * steps[step]["response_length/mean"] for step in steps)


def rollout_rate(run_dir: Path) -> tuple[float, int]:
    """Median response tokens a second of our rollout phase, all groups counted, and the groups sent in a step."""
    steps = {step: data for step, data in read_steps(run_dir / "metrics").items() if step > 1}
    rates = [data["sampling/tokens_generated"] / data["timing_s/gen"] for data in steps.values()]
    return median(rates), round(median(data["sampling/generated_groups"] for data in steps.values()))


def bare_vllm(base: Path, groups: int, seed: int, threads: int, repeats: int = 5) -> float:
    """Median tokens a second of an offline vLLM on `groups` prompts x 8 samples, start-up and first call left out."""
    code = f"""
import json, os, time
os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_OMP_THREADS_BIND="nobind",
                  OMP_NUM_THREADS="{threads}")
import pyarrow.parquet as pq
from vllm import LLM, SamplingParams
from recipe.sampling_seed import group_uid, sampling_seed
prompts = pq.read_table("{base}/data/train.parquet")["prompt"].to_pylist()[:{groups}]
llm = LLM("{base}/base_model", enforce_eager=True, dtype="float32", max_model_len=96, max_num_seqs=256,
          distributed_executor_backend="uni")
rates = []
for i in range({repeats} + 1):
    seeds = [sampling_seed(group_uid({seed}, i * len(prompts) + j)) for j in range(len(prompts))]
    wanted = [SamplingParams(n=8, temperature=1.0, max_tokens=64, logprobs=0, flat_logprobs=True, detokenize=False,
                             seed=one) for one in seeds]
    begin = time.perf_counter()
    out = llm.chat(prompts, wanted, use_tqdm=False)
    rates.append(sum(len(s.token_ids) for o in out for s in o.outputs) / (time.perf_counter() - begin))
print(json.dumps(sorted(rates[1:])[{repeats} // 2]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Run the three arms one after the other and put them side by side."""
    cores = psutil.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="loop_bench_") as temporary:
        folder = Path(temporary)
        make_base(folder / "base", seed)
        as_math_dapo(folder / "base/data/train.parquet")
        arms = {}
        for name, changed in (("ours", []), ("verl", STOCK)):
            began = time.time()
            train([*changed, STILL], folder / "base", folder / name, steps, seed)
            arms[name] = arm(folder / name, began)
        rate, groups = rollout_rate(folder / "ours")
        threads = {"ours": max(1, cores - 1), "bare_vllm": cores}
        bare, as_many = (bare_vllm(folder / "base", groups, seed, threads[name]) for name in ("bare_vllm", "ours"))
    ours, stock = arms["ours"], arms["verl"]
    return {
        "step_speedup_vs_stock": round(stock["step_s"] / ours["step_s"], 2),
        "gen_speedup_vs_stock": round(stock["gen_s"] / ours["gen_s"], 2),
        "rollout_over_bare_vllm": round(rate / bare, 2),
        "rollout_over_bare_vllm_with_as_many_threads": round(rate / as_many, 2),
        "seconds_to_first_step": ours["seconds_to_first_step"],
        "seconds_to_first_step_stock": stock["seconds_to_first_step"],
        "rollout_tokens_per_s": round(rate),
        "bare_vllm_tokens_per_s": round(bare),
        "bare_vllm_tokens_per_s_with_as_many_threads": round(as_many),
        "same_groups_a_step": ours["groups_a_step"] == stock["groups_a_step"],
        "engine_threads": threads,
        "steps": steps,
        "seed": seed,
        "cores": cores,
        "load": round(psutil.getloadavg()[2], 1),
        "arms": arms,
    }


def main() -> None:
    """Measure, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the result here")
    args = parser.parse_args()
    result = measure(args.steps, args.seed)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
