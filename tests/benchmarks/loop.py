"""Benchmark: `python -m tests.benchmarks.loop [--steps N] [--seed S] [--json FILE]`.

Trains the tiny recipe on CPU from the same data, base model and seed in two ways, and then asks vLLM alone for the
same kind of requests:

    ours        as shipped
    verl        stock V1 on our CPU platform: its own sampler, agent loop, reward manager and policy loss
    bare vLLM   the base model, as many prompts x samples as one step of ours sent, in one offline call

The last line is one JSON object. `step_speedup_vs_stock` and `gen_speedup_vs_stock` compare medians without the first
step; `rollout_over_bare_vllm` compares tokens a second of our rollout phase with bare vLLM; `seconds_to_first_step` is
from the command to the start of step 1.
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

from tests.benchmarks.sampler import SAMPLERS, make_base, train

STOCK = [
    *SAMPLERS["verl_builtin"],
    "actor_rollout_ref.rollout.agent.agent_loop_manager_class=null",
    "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent",
    "actor_rollout_ref.actor.policy_loss.loss_mode=vanilla",
    "reward.reward_manager.source=register",
    "reward.reward_manager.name=dapo",
]
SHOWN = ("gen", "old_log_prob", "adv", "update_actor", "update_weights", "step")


def as_math_dapo(path: Path) -> None:
    """Call the data's source `math_dapo`, so that verl's own reward manager knows how to grade it."""
    table = pq.read_table(path)
    column = table.column_names.index("data_source")
    pq.write_table(table.set_column(column, "data_source", pa.array(["math_dapo"] * len(table))), path)


def phases(run_dir: Path) -> dict[str, float]:
    """Median seconds of every phase that verl times, without the first step."""
    lines = [line for path in sorted((run_dir / "metrics").glob("*.jsonl")) for line in path.open()]
    steps = [entry["data"] for entry in map(json.loads, lines) if entry["step"] > 1]
    keys = [f"timing_s/{name}" for name in SHOWN]
    return {key: round(median(step[key] for step in steps), 2) for key in keys if all(key in s for s in steps)}


def rollout_rate(run_dir: Path) -> tuple[float, int]:
    """Median response tokens a second of our rollout phase, all groups counted, and the groups sent in a step."""
    generated, sent = {}, []
    for path in (run_dir / "sampling").glob("*.jsonl"):
        groups = [json.loads(line) for line in path.open()]
        generated[groups[0]["step"]] = sum(sum(group["lengths"]) for group in groups)
        sent.append(len(groups))
    lines = [line for path in sorted((run_dir / "metrics").glob("*.jsonl")) for line in path.open()]
    seconds = {entry["step"]: entry["data"]["timing_s/gen"] for entry in map(json.loads, lines)}
    return median(generated[step] / seconds[step] for step in generated if step > 1), round(median(sent))


def bare_vllm(base: Path, groups: int, repeats: int = 5) -> float:
    """Median tokens a second of an offline vLLM on `groups` prompts x 8 samples, start-up and first call left out."""
    code = f"""
import json, os, time
os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_OMP_THREADS_BIND="nobind")
import pyarrow.parquet as pq
from vllm import LLM, SamplingParams
prompts = pq.read_table("{base}/data/train.parquet")["prompt"].to_pylist()[:{groups}]
llm = LLM("{base}/base_model", enforce_eager=True, dtype="float32", max_model_len=96, max_num_seqs=256,
          distributed_executor_backend="uni")
rates = []
for i in range({repeats} + 1):
    begin = time.perf_counter()
    out = llm.chat(prompts, SamplingParams(n=8, temperature=1.0, max_tokens=64, logprobs=0, detokenize=False),
                   use_tqdm=False)
    rates.append(sum(len(s.token_ids) for o in out for s in o.outputs) / (time.perf_counter() - begin))
print(json.dumps(sorted(rates[1:])[{repeats} // 2]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.strip().splitlines()[-1])


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Run the three arms one after the other and put them side by side."""
    with tempfile.TemporaryDirectory(prefix="loop_bench_") as name:
        folder = Path(name)
        make_base(folder / "base", seed)
        as_math_dapo(folder / "base/data/train.parquet")
        arms, wall = {}, {}
        for arm, changed in (("ours", []), ("verl", STOCK)):
            begin = time.time()
            arms[arm] = train(changed, folder / "base", folder / arm, steps, seed)
            arms[arm]["phases_s"] = phases(folder / arm)
            first = min((folder / arm / "rollouts").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
            wall[arm] = first.stat().st_mtime - begin - arms[arm]["all_gen_s"][0]
        rate, groups = rollout_rate(folder / "ours")
        bare = bare_vllm(folder / "base", groups)
    ours, stock = arms["ours"], arms["verl"]
    return {
        "step_speedup_vs_stock": round(stock["step_s"] / ours["step_s"], 2),
        "gen_speedup_vs_stock": round(stock["gen_s"] / ours["gen_s"], 2),
        "rollout_over_bare_vllm": round(rate / bare, 2),
        "seconds_to_first_step": round(wall["ours"], 1),
        "seconds_to_first_step_stock": round(wall["verl"], 1),
        "rollout_tokens_per_s": round(rate),
        "bare_vllm_tokens_per_s": round(bare),
        "steps": steps,
        "seed": seed,
        "cores": psutil.cpu_count(),
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
