"""Compares two evaluations problem by problem: the difference with its interval, who gained and who lost.

    python eval/compare.py outputs/eval/before.jsonl outputs/eval/after.jsonl [--json difference.json]

Both must have been asked and graded alike; models and seeds may differ. `--force` compares all the same and says what
differs.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: see eval_aime24
    _HERE = Path(__file__).resolve().parent
    sys.path[:] = [str(_HERE.parent), *(path for path in sys.path if Path(path) != _HERE)]

from eval.metrics import bootstrap_interval, standard_error
from eval.records import Line, read_lines, read_settings, write_json
from eval.settings import COMPARABLE, differences
from eval.summary import by_problem, missing_keys


@dataclass(frozen=True)
class Evaluated:
    """One side: its settings, and `(line of the problem's first sample, accuracy)` by problem digest."""

    name: str
    settings: dict[str, Any]
    problems: dict[str, tuple[Line, float]]
    missing: int


def load(path: Path) -> Evaluated:
    """Read a samples file with its settings.

    Raises:
        ValueError: the file is missing, damaged, empty, or graded by more than one verifier.
    """
    lines, _ = read_lines(path)
    if not lines:
        raise ValueError(f"{path} has no samples")
    graders = sorted({str(line.get("grader")) for line in lines.values()})
    if len(graders) > 1:
        raise ValueError(f"{path} was graded by {' and '.join(graders)}: python eval/eval_aime24.py --regrade {path}")
    settings = {**read_settings(path), "grader": graders[0]}
    n = settings.setdefault("n", 1 + max(sample for _, sample in lines))
    kept = [line for line in lines.values() if line["sample"] < n]
    count = settings.get("problems") or 1 + max(line["problem"] for line in kept)
    problems = {
        str(group[0].get("digest", index)): (group[0], sum(line["correct"] for line in group) / len(group))
        for index, group in by_problem(kept).items()
    }
    return Evaluated(str(path), settings, problems, len(missing_keys(kept, count, n)))


def refusals(a: Evaluated, b: Evaluated, allow_missing: bool = False) -> list[str]:
    """Why the two must not be compared; empty when they may."""
    found = differences(a.settings, b.settings, COMPARABLE)
    found += [f"no settings beside {side.name}" for side in (a, b) if "prompt_hash" not in side.settings]
    if not allow_missing:
        found += [f"{side.missing} samples are missing in {side.name}" for side in (a, b) if side.missing]
    return found


def compare(a: Evaluated, b: Evaluated) -> dict[str, Any]:
    """B minus A, paired by problem.

    Returns:
        `a`, `b` (avg over the paired problems), `difference` with `low`, `high` (95 % bootstrap over problems) and
        `standard_error`, and the problems that `gained` and `lost`, largest change first.

    Raises:
        ValueError: no problem is in both.
    """
    shared = [digest for digest in a.problems if digest in b.problems]
    if not shared:
        raise ValueError(f"{a.name} and {b.name} have no problem in common")
    rows = [_row(*a.problems[digest], b.problems[digest][1]) for digest in shared]
    changes = [row["difference"] for row in rows]
    low, high = bootstrap_interval(changes)
    return {
        "a": _mean([row["a"] for row in rows]),
        "b": _mean([row["b"] for row in rows]),
        "difference": _mean(changes),
        "low": low,
        "high": high,
        "standard_error": standard_error(changes),
        "problems": len(rows),
        "only_in_a": len(a.problems) - len(rows),
        "only_in_b": len(b.problems) - len(rows),
        "samples": [a.settings["n"], b.settings["n"]],
        "missing": [a.missing, b.missing],
        "files": [a.name, b.name],
        "models": [a.settings.get("model"), b.settings.get("model")],
        "gained": sorted((row for row in rows if row["difference"] > 0), key=lambda row: -row["difference"]),
        "lost": sorted((row for row in rows if row["difference"] < 0), key=lambda row: row["difference"]),
    }


def table(result: dict[str, Any], top: int) -> str:
    """The comparison for a person; at most `top` problems that gained, and as many that lost."""
    k = result["samples"]
    error = result["standard_error"]
    lines = [
        f"A  {result['files'][0]}  {result['models'][0]}",
        f"B  {result['files'][1]}  {result['models'][1]}",
        f"avg@{k[0] if k[0] == k[1] else 'k'}  A {result['a']:.4f}  B {result['b']:.4f}  "
        f"B - A {result['difference']:+.4f}  95 % interval over {result['problems']} paired problems "
        f"[{result['low']:+.4f}, {result['high']:+.4f}]" + ("" if error is None else f"  standard error {error:.4f}"),
    ]
    if result["only_in_a"] or result["only_in_b"]:
        lines.append(f"left out: {result['only_in_a']} problems only in A, {result['only_in_b']} only in B")
    if any(result["missing"]):
        lines.append(f"left out: {result['missing'][0]} missing samples of A, {result['missing'][1]} of B")
    for name in ("gained", "lost"):
        rows = result[name]
        lines.append(f"{name} {len(rows)}" + (f", the first {top}" if len(rows) > top else ""))
        lines += [
            f"  problem {row['problem']:>4}  A {row['a']:.3f}  B {row['b']:.3f}  {row['difference']:+.3f}  "
            f"answer {row['gold']}"
            for row in rows[:top]
        ]
    lines += [f"warning: {warning}" for warning in result["warnings"]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 when compared, 2 when refused."""
    parser = argparse.ArgumentParser(prog="compare", description="Compare two evaluations, paired by problem.")
    parser.add_argument("a", type=Path, metavar="A", help="samples of one evaluation, .jsonl")
    parser.add_argument("b", type=Path, metavar="B", help="samples of the other")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write JSON there, or print it for a table"
    )
    parser.add_argument("--top", type=int, default=30, help="problems listed that gained, and that lost (default: 30)")
    parser.add_argument("--allow_missing", action="store_true", help="compare although samples are missing")
    parser.add_argument("--force", action="store_true", help="compare although settings differ or samples are missing")
    options = parser.parse_args(arguments)
    try:
        a, b = load(options.a), load(options.b)
        reasons = refusals(a, b, options.allow_missing)
        if reasons and not options.force:
            raise ValueError("\n  ".join(["not comparable (A and B):", *reasons, "--force compares all the same"]))
        result = compare(a, b)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    result["warnings"] = reasons
    if options.json == "-":
        print(json.dumps(result, indent=1))
        return 0
    if options.json:
        write_json(Path(options.json), result)
    print(table(result, options.top))
    return 0


def _row(first: Line, accuracy_a: float, accuracy_b: float) -> dict[str, Any]:
    return {
        "problem": first["problem"],
        "digest": first.get("digest"),
        "gold": first["gold"],
        "a": accuracy_a,
        "b": accuracy_b,
        "difference": accuracy_b - accuracy_a,
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    sys.exit(main())
