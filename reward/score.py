"""Score a file of responses: ``python -m reward.score FILE.jsonl [--mode strict|verl_compat|tutorial] [--show wrong]``.

Each line is ``{"response", "gold", "expected"?, "id"?, "kind"?}``. The last line printed is one JSON object: ``n``,
``accuracy``, ``precision``, ``recall``, ``false_positive_rate``, ``by_kind``, ``us_per_call`` (median), ``mode``, and
counts. Lines without ``expected``, and lines of kind ``ambiguous``, are scored but stay out of these rates.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reward.grade import grade
from reward.verdict import ANSWER_FORMATS, MODES, Verdict


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of a JSONL file; blank lines are skipped.

    Raises:
        ValueError: a line is no JSON object with string ``response`` and a ``gold``; the message names its number.
    """
    with path.open(encoding="utf-8", errors="surrogatepass") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                case = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{number}: not JSON ({error}); write one object a line") from error
            if not isinstance(case, dict) or not isinstance(case.get("response"), str) or "gold" not in case:
                raise ValueError(f'{path}:{number}: need an object with "response" (text) and "gold"')
            if not isinstance(case.get("expected", True), bool):
                raise ValueError(f'{path}:{number}: "expected" is {case["expected"]!r}; write true or false')
            yield case


def rates(pairs: list[tuple[bool, bool]]) -> dict[str, float | int | None]:
    """Rates of (accepted, expected) pairs; a rate without a denominator is None."""

    def share(top: int, bottom: int) -> float | None:
        return round(top / bottom, 4) if bottom else None

    right = sum(got == want for got, want in pairs)
    both = sum(got and want for got, want in pairs)
    accepted, wanted = sum(got for got, _ in pairs), sum(want for _, want in pairs)
    return {
        "n": len(pairs),
        "accuracy": share(right, len(pairs)),
        "precision": share(both, accepted),
        "recall": share(both, wanted),
        "false_positive_rate": share(accepted - both, len(pairs) - wanted),
    }


def summarise(scored: list[tuple[dict[str, Any], Verdict, float]], mode: str) -> dict[str, Any]:
    """One JSON-ready summary of (case, verdict, seconds) triples."""
    by_kind: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    judged: list[tuple[bool, bool]] = []
    statuses: dict[str, int] = defaultdict(int)
    for case, verdict, _ in scored:
        statuses[verdict.parse_status] += 1
        if "expected" in case:
            pair = (verdict.correct, case["expected"])
            by_kind[str(case.get("kind", "none"))].append(pair)
            if case.get("kind") != "ambiguous":
                judged.append(pair)
    seconds = [time_s for _, _, time_s in scored]
    return {
        **rates(judged),
        "by_kind": {kind: rates(pairs) for kind, pairs in sorted(by_kind.items())},
        "us_per_call": round(1e6 * statistics.median(seconds), 1) if seconds else None,
        "max_us": round(1e6 * max(seconds), 1) if seconds else None,
        "mode": mode,
        "scored": len(scored),
        "accepted": sum(verdict.correct for _, verdict, _ in scored),
        "errors": sum(verdict.error for _, verdict, _ in scored),
        "parse_status": dict(statuses),
    }


def describe(case: dict[str, Any], verdict: Verdict) -> str:
    """One line about a case whose verdict is not the expected one."""
    fields = {key: case[key] for key in ("id", "kind", "gold", "expected") if key in case}
    return json.dumps({**fields, "got": verdict.correct, "pred": verdict.pred, "reason": verdict.reason})


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 on success, 2 on a bad file."""
    parser = argparse.ArgumentParser(prog="python -m reward.score", description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--mode", choices=MODES, default="strict")
    parser.add_argument("--answer-format", choices=ANSWER_FORMATS, default="answer")
    parser.add_argument("--show", choices=("wrong",), help="print every case whose verdict is not the expected one")
    options = parser.parse_args(arguments)
    scored = []
    try:
        for case in read_cases(options.file):
            begin = time.perf_counter()
            verdict = grade(case["response"], case["gold"], mode=options.mode, answer_format=options.answer_format)
            scored.append((case, verdict, time.perf_counter() - begin))
            if options.show and verdict.correct != case.get("expected", verdict.correct):
                print(describe(case, verdict))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(summarise(scored, options.mode)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
