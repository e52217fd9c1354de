"""Folders that look like a run's, made up, for the tests of the report."""

import json
import math

import yaml

HOSTILE = (
    "<script>console.error('run me')</script> \x1b[31m \u202egnp.x <img src=x onerror=alert(1)> $\\frac{1}{2}$ &amp;"
)


def metrics(step):
    """What a step logs, as far as the report reads it."""
    kept, wrong = 32, 4 + step % 3
    return {
        "sampling/response_length/before_filter": 300 + 20.0 * step,
        "sampling/response_length_right/before_filter": 280 + 20.0 * step,
        "sampling/response_length_wrong/before_filter": 330 + 20.0 * step,
        "sampling/reward/before_filter": -0.2 + 0.04 * step,
        "sampling/acc/before_filter": 0.4 + 0.02 * step,
        "sampling/acc/after_filter": 0.5,
        "sampling/kept_share": kept / (kept + wrong),
        "sampling/generated_groups": float(kept + wrong),
        "sampling/kept_groups": float(kept),
        "sampling/groups/all_wrong": float(wrong),
        "sampling/groups/all_correct": 0.0,
        "sampling/tokens_generated": 1000.0 * step,
        "sampling/tokens_wasted": 100.0 * step,
        "sampling/tokens_wasted_share": 0.1,
        "sampling/truncated_share/before_filter": 0.05,
        "sampling/parse_fail_share": 0.01,
        "sampling/seconds": 5.0,
        "actor/entropy": 0.3 + 0.3 * math.exp(-step / 5),
        "actor/mean_generation_prob": 0.7,
        "actor/clip_frac_high": 0.01,
        "actor/clip_frac_low": 0.002,
        "actor/grad_norm": 0.2,
        "actor/perf/cpu_memory_used_gb": 8.0,
        "training/rollout_probs_diff_mean": 0.003,
        "training/gradient_step": 4.0 * step,
        "perf/throughput": 900.0,
        "timing_s/step": 10.0,
        "timing_s/gen": 5.0,
        "timing_s/update_actor": 4.0,
        **({"val-core/aime/acc/mean@4": 0.4 + 0.01 * step} if step % 5 == 0 else {}),
    }


def example(step, kind, response="1+1=2\nAnswer: 2", reason="kept", acc=1.0):
    """One line of `examples/`."""
    return {
        "step": step, "uid": f"u{step}_0_0", "kind": kind, "prompt": "What is 1+1?", "response": response, "gold": "2",
        "pred": "2", "acc": acc, "reward": 2 * acc - 1, "tokens": 9, "truncated": kind == "truncated", "reason": reason,
        "group_accuracy": 0.5,
    }  # fmt: skip


def examples(step):
    """All kinds, one of them hostile."""
    return [
        example(step, "right", HOSTILE),
        example(step, "wrong", acc=0.0),
        example(step, "truncated", "and so " * 4000, acc=0.0),
        example(step, "filtered", reason="all_wrong", acc=0.0),
    ]


def evaluation(folder, name, share, problems=40, samples=4, temperature=1.0):
    """Samples and summary of an evaluation in which `share` of the samples are right."""
    folder.mkdir(parents=True, exist_ok=True)
    right = round(share * samples)
    lines = [
        {"problem": p, "sample": s, "gold": "2", "text": "Answer: 2", "pred": "2", "correct": s < right}
        for p in range(problems)
        for s in range(samples)
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {"mean": right / samples, "low": right / samples - 0.05, "high": right / samples + 0.05}
    summary |= {"problems": problems, "samples": samples, "truncated_share": 0.02, "unparsed_share": 0.01}
    summary |= {f"pass@{samples}": 0.875, f"maj@{samples}": 0.625, "settings": {"temperature": temperature}}
    (folder / f"{name}.summary.json").write_text(json.dumps(summary))


def make_run(folder, steps=20, name="tiny-dapo-seed1", config=(), change=lambda step, data: data):
    """A finished run of `steps` steps; `change` may alter what a step logs."""
    for part in ("metrics", "examples"):
        (folder / part).mkdir(parents=True)
    rows = [{"step": step, "data": change(step, metrics(step))} for step in range(1, steps + 1)]
    (folder / "metrics" / "000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step in range(1, steps + 1):
        (folder / "examples" / f"{step}.jsonl").write_text("".join(json.dumps(e) + "\n" for e in examples(step)))
    resolved = {
        "run_dir": str(folder),
        "trainer": {"experiment_name": name, "total_training_steps": steps},
        "data": {"train_files": f"{folder}/data/train.parquet", "train_batch_size": 32},
        "actor_rollout_ref": {"actor": {"clip_ratio_high": 0.28}},
        "secrets": {"api_key": "sk-planted", "max_tokens": 64},
    }
    for key, value in config:
        node = resolved
        *parents, last = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    (folder / "config.resolved.yaml").write_text(
        f"# commit {'0123456789ab' * 3}0123-dirty\n" + yaml.safe_dump(resolved)
    )
    evaluation(folder / "eval", "before", 0.25)
    evaluation(folder / "eval", "after", 0.75)
    phases = {phase: {"seconds": 60.0, "done": True, "peak_bytes": 3e9, "command": []} for phase in ("data", "train")}
    (folder / "loop.json").write_text(json.dumps({"phases": phases, "peak_bytes": 8.1e9}))
    return folder
