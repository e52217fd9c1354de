"""Sampled responses to read: from the run's own examples, else from its evaluations and rollout dumps. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.report.jsonl import read_jsonl
from recipe.examples import KINDS, kind_of

_LONGEST = 6000  # characters shown of a text; the middle of a longer one is left out
_FILES = 40  # step files read at most of a long run, evenly spaced
# Control characters have pictures of their own from U+2400 on; a browser would drop the characters or obey them.
_PICTURES = {c: 0x2400 + c for c in range(32) if c not in (9, 10)} | {127: 0x2421}
# Marks that turn the direction of text around would let an answer reorder what is shown; a terminal obeys 0x80 to 0x9F.
_MARKS = dict.fromkeys(
    [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F], "\N{REPLACEMENT CHARACTER}"
)


@dataclass(frozen=True)
class Response:
    """One sampled response as text; `where` says which step or evaluation it is from, `verdict` how it was judged."""

    kind: str
    where: str
    prompt: str
    response: str
    gold: str
    pred: str
    verdict: str
    tokens: int | None = None


def read_responses(folder: Path) -> list[Response]:
    """All responses that a run kept as text, by kind and step."""
    rows = [_from_example(row) for path in _spread(_by_step(folder / "examples"), _FILES) for row in _rows(path)]
    if not rows:
        rows = [
            _from_rollout(path.stem, row) for path in _spread(_by_step(folder / "rollouts"), 4) for row in _rows(path)
        ]
    if not rows:
        evaluations = sorted((folder / "eval").glob("*.jsonl"))
        rows = [_from_evaluation(path.stem, row) for path in evaluations for row in _rows(path)]
    return sorted((row for row in rows if row is not None), key=lambda r: KINDS.index(r.kind))


def choose(responses: Sequence[Response], count: int) -> list[Response]:
    """`count` responses, as many of each kind as there are, evenly spaced over the run; the same ones each time."""
    left, chosen = count, []
    by_kind = [[r for r in responses if r.kind == kind] for kind in KINDS]
    by_kind = sorted((group for group in by_kind if group), key=len)
    for i, group in enumerate(by_kind):
        share = math.ceil(left / (len(by_kind) - i))
        picked = _spread(group, share)
        chosen += picked
        left -= len(picked)
    return sorted(chosen, key=lambda r: KINDS.index(r.kind))


def visible(text: str) -> str:
    """Model text as it may be shown, on a terminal too: control characters visible, no marks of direction."""
    text = text.replace("\r\n", "\n").translate(_PICTURES).translate(_MARKS)
    return text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate has no place in a file


def readable(text: str) -> str:
    """Model text as `visible` shows it, a long middle left out."""
    text = visible(text)
    if len(text) <= _LONGEST:
        return text
    head, tail = _LONGEST * 2 // 3, _LONGEST // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{text[-tail:]}"


def _from_example(row: dict[str, Any]) -> Response | None:
    try:
        verdict = "right" if row["acc"] > 0.5 else "wrong"
        if row["reason"] != "kept":
            share = row.get("group_accuracy")
            group = "" if share is None else f", {share:.0%} of its group right"
            verdict += f"; group dropped: {row['reason']}{group}"
        if row["truncated"]:
            verdict += ", cut at the length limit"
        verdict += f"; reward {row['reward']:+.2f}"
        return Response(
            row["kind"] if row["kind"] in KINDS else kind_of(row["acc"], row["truncated"], row["reason"]),
            f"step {row['step']}", row["prompt"], row["response"], row["gold"], row["pred"], verdict, row["tokens"],
        )  # fmt: skip
    except (KeyError, TypeError):
        return None


def _from_rollout(step: str, row: dict[str, Any]) -> Response | None:
    if not isinstance(row.get("output"), str):
        return None
    score = float(row.get("score") or 0.0)
    return Response(
        "right" if score > 0 else "wrong", f"step {step}", str(row.get("input", "")), row["output"],
        str(row.get("gts")), "(not recorded)", f"reward {score:+.2f}",
    )  # fmt: skip


def _from_evaluation(name: str, row: dict[str, Any]) -> Response | None:
    if not isinstance(row.get("text"), str) or "correct" not in row:
        return None
    truncated = row.get("finish_reason") == "length"
    return Response(
        kind_of(float(row["correct"]), truncated), f"evaluation {name}, problem {row.get('problem')}",
        str(row.get("prompt", "(not recorded)")), row["text"], str(row.get("gold")), row.get("pred") or "",
        "right" if row["correct"] else "wrong", row.get("completion_tokens") or row.get("tokens"),
    )  # fmt: skip


def _by_step(folder: Path) -> list[Path]:
    return sorted((p for p in folder.glob("*.jsonl") if p.stem.isdigit()), key=lambda p: int(p.stem))


def _rows(path: Path) -> list[dict[str, Any]]:
    """Objects of a JSONL file; a run that goes on after a kill writes after the line that it tore."""
    return read_jsonl(path, skip_damaged=True)


def _spread(items: Sequence[Any], count: int) -> list[Any]:
    """At most `count` of the items, evenly spaced, the last one among them."""
    if count <= 0:
        return []
    if len(items) <= count:
        return list(items)
    return [items[round((i + 1) * len(items) / count) - 1] for i in range(count)]
