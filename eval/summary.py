"""Figures of a file of samples, and the table that a person reads."""

import math
from collections.abc import Collection, Iterable
from typing import Any

from eval.metrics import avg_at_k, bootstrap_interval, maj_at_k, pass_at_k, standard_error
from eval.records import Key, Line
from reward.exact import rational


class Incomplete(ValueError):
    """Samples are missing, so there is no avg@k."""


def by_problem(lines: Iterable[Line]) -> dict[int, list[Line]]:
    """Lines of each problem, both in ascending order."""
    found: dict[int, list[Line]] = {}
    for line in sorted(lines, key=lambda line: (line["problem"], line["sample"])):
        found.setdefault(line["problem"], []).append(line)
    return found


def missing_keys(lines: Collection[Line], problems: int, n: int) -> list[Key]:
    """Keys of `problems` x `n` samples that are not among the lines."""
    have = {(line["problem"], line["sample"]) for line in lines}
    return [(p, s) for p in range(problems) for s in range(n) if (p, s) not in have]


def summarise(lines: Collection[Line], problems: int, n: int, allow_missing: bool = False) -> dict[str, Any]:
    """avg@k, pass@k, maj@k with their spread over problems, and what became of the samples.

    Missing samples are left out, never counted as wrong. With some missing, k is the smallest number of samples that
    an answered problem has, avg is over all samples that there are, and problems without any are left out and counted.

    Args:
        lines: graded samples; those with a sample number of `n` or more are ignored.
        problems: number of problems asked, numbered from 0.
        n: samples asked for each.
        allow_missing: whether to go on when samples are missing.

    Returns:
        `mean`, `low`, `high` (95 % bootstrap over problems), `standard_error`, `problems`, `samples` (k), the mean
        again as `avg@k`, `pass@1 2 4 ... k`, `maj@k`, and shares and lengths.

    Raises:
        Incomplete: samples are missing without `allow_missing`, or all are.
    """
    kept = [line for line in lines if line["sample"] < n and line["problem"] < problems]
    missing = missing_keys(kept, problems, n)
    if missing and (not allow_missing or not kept):
        raise Incomplete(
            f"{len(missing)} of {problems * n} samples are missing, so there is no avg@{n}. The same command asks "
            "for them again; --allow_missing leaves them out"
        )
    groups = list(by_problem(kept).values())
    k = min(map(len, groups))
    correct = [[float(line["correct"]) for line in group] for group in groups]
    means = [math.fsum(c) / len(c) for c in correct]
    low, high = bootstrap_interval(means)
    mean = avg_at_k(correct)
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "standard_error": standard_error(means),
        "problems": len(groups),
        "problems_without_samples": problems - len(groups),
        "samples": k,
        "samples_asked": n,
        f"avg@{k}": mean,
        **{f"pass@{i}": _mean(pass_at_k(len(c), int(sum(c)), i) for c in correct) for i in _powers(k)},
        f"maj@{k}": _mean(
            maj_at_k([vote(line) for line in group], c) for group, c in zip(groups, correct, strict=True)
        ),
        "missing": len(missing),
        "missing_share": len(missing) / (problems * n),
        **_shares(kept),
    }


def vote(line: Line) -> str | None:
    """What a sample votes for: right answers, however spelled, for one thing; others by value, or else by text."""
    if line["correct"]:
        return f"right: {line['gold']}"
    number = rational(line["pred"]) if line["pred"] else None
    return line["pred"] if number is None else str(number)


def _shares(lines: Collection[Line]) -> dict[str, Any]:
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for line in lines:
        if line.get("completion_tokens") is not None:
            lengths[line["correct"]].append(line["completion_tokens"])
    both = lengths[True] + lengths[False]
    return {
        "truncated_share": _mean(line.get("finish_reason") == "length" for line in lines),
        "unparsed_share": _mean(line["pred"] is None for line in lines),
        "grading_errors": sum(bool(line.get("grading_error")) for line in lines),
        "mean_tokens": _mean(both) if both else None,
        "mean_tokens_right": _mean(lengths[True]) if lengths[True] else None,
        "mean_tokens_wrong": _mean(lengths[False]) if lengths[False] else None,
    }


def _powers(k: int) -> list[int]:
    """1, 2, 4, ... up to k, and k itself."""
    return sorted({2**i for i in range(k.bit_length())} | {k})


def _mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return math.fsum(found) / len(found)


def table(summary: dict[str, Any]) -> str:
    """The summary for a person, a few lines."""
    k = summary["samples"]
    error = summary["standard_error"]
    lines = [
        f"{summary['problems']} problems x {k} samples",
        f"avg@{k:<4} {summary['mean']:.4f}  95 % interval over problems [{summary['low']:.4f}, {summary['high']:.4f}]"
        + ("" if error is None else f"  standard error {error:.4f}"),
        "pass@k   " + "  ".join(f"@{i} {summary[f'pass@{i}']:.4f}" for i in _powers(k)),
        f"maj@{k:<4} {summary[f'maj@{k}']:.4f}",
        f"samples  truncated {summary['truncated_share']:.1%}  without an answer {summary['unparsed_share']:.1%}"
        f"  missing {summary['missing']}  grading errors {summary['grading_errors']}",
    ]
    lengths = [("all", "mean_tokens"), ("right", "mean_tokens_right"), ("wrong", "mean_tokens_wrong")]
    known = [f"{name} {summary[key]:.0f}" for name, key in lengths if summary[key] is not None]
    if known:
        lines.append("tokens   " + "  ".join(known))
    if summary["missing"]:
        without = summary["problems_without_samples"]
        lines.append(f"left out: {summary['missing']} missing samples; {without} problems have no sample at all")
    return "\n".join(lines)
