"""Groups of answers as a file: what the sampler writes each step, and what the simulator and the report read.

One JSON object a line, one line a group, kept or not, in dispatch order. Fields: ``step``, ``uid``, ``order``,
``prompt`` (``data_source/index``, the same over epochs and resumes, unlike the uid), ``acc`` (0 to 1 a sample),
``lengths`` (response tokens), ``truncated`` (booleans), ``rewards``, ``reason`` (see ``group_filter.REASONS``, or a
state of ``step_ledger``), ``dispatched_at`` and ``decided_at`` (seconds), ``carried`` (kept in the step before) and
``trained``.
Without a recording, ``synthetic`` draws groups with a known acceptance.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recipe.group_filter import Filter, Group
from recipe.step_ledger import StepLedger


@dataclass(frozen=True)
class TraceGroup:
    """One group of a trace; see the module docstring for the fields and units."""

    acc: list[float]
    lengths: list[int]
    truncated: list[bool] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    step: int = 0
    uid: str = ""
    order: int = 0
    prompt: str = ""
    reason: str = ""
    dispatched_at: float | None = None
    decided_at: float | None = None
    carried: bool = False
    trained: bool = False

    def group(self, expected_samples: int | None = None) -> Group:
        """The same answers as a filter wants them."""
        return Group(self.acc, self.rewards, self.lengths, self.truncated, expected_samples)


def write_trace(path: Path, groups: Iterable[TraceGroup]) -> None:
    """Write one line a group, replacing the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(g)) + "\n" for g in groups))


def write_step(
    folder: str,
    step: int,
    ledger: StepLedger,
    records: Mapping[str, Any],
    trained: set[str],
    prompts: Mapping[str, str],
) -> None:
    """Write `folder/step.jsonl`: every group of the step's ledger, with the answers that `records` holds of it.

    `records` maps a uid to something with a `group` and a `reason`, `prompts` to the key of its prompt; times are
    seconds since the step began.
    """
    groups = []
    for entry in ledger.entries.values():
        record = records.get(entry.uid)
        group = record.group if record is not None else Group([])
        groups.append(
            TraceGroup(
                acc=list(group.accuracies),
                lengths=list(group.lengths),
                truncated=list(group.truncated),
                rewards=list(group.rewards),
                step=step,
                uid=entry.uid,
                order=entry.order,
                prompt=prompts.get(entry.uid, ""),
                reason=entry.state,
                dispatched_at=entry.dispatched_at - ledger.started_at,
                decided_at=None if entry.decided_at is None else entry.decided_at - ledger.started_at,
                carried=entry.carried,
                trained=entry.uid in trained,
            )
        )
    write_trace(Path(folder) / f"{step}.jsonl", groups)


def read_trace(path: Path) -> list[TraceGroup]:
    """Groups of a ``.jsonl`` file, or of all of a folder's, by step and dispatch.

    Left out: groups without samples, and carried ones, which the step before has.
    Raises ``ValueError`` with file and line when a line is not a group.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    groups = [g for file in files for g in _read_file(file)]
    return sorted((g for g in groups if g.lengths and not g.carried), key=lambda g: (g.step, g.order))


def _read_file(path: Path) -> list[TraceGroup]:
    known = set(TraceGroup.__dataclass_fields__)
    groups = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            row = json.loads(line)
            groups.append(TraceGroup(**{k: v for k, v in row.items() if k in known}))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}:{number} is not a sampling trace line (acc, lengths, ...): {error}") from error
    return groups


def measured_acceptance(groups: list[TraceGroup], group_filter: Filter) -> float:
    """Share of groups that the filter keeps, 0 to 1."""
    if not groups:
        raise ValueError("the trace holds no group with samples: record one, or leave --trace out")
    return sum(group_filter.decide(g.group()).keep for g in groups) / len(groups)


EASY_ACC, HARD_ACC = 0.25, 0.75


def acceptance_of_useful(n: int) -> float:
    """P(0 < correct < n) of a prompt whose success probability is uniform on [0.25, 0.75], n samples."""
    low, high = EASY_ACC, HARD_ACC
    all_right = (high ** (n + 1) - low ** (n + 1)) / ((n + 1) * (high - low))
    return 1.0 - 2.0 * all_right  # all wrong is as likely: the interval is symmetric


@dataclass(frozen=True)
class LengthModel:
    """Log-normal response lengths, capped: the tail of long answers that a batch waits for.

    ``median`` tokens of an answer to an easy prompt; a hard prompt's is ``hard_factor`` times that (interpolated in
    the success probability); ``sigma`` of the logarithm within a group; ``cap``: the length limit in tokens. An answer
    that reaches the cap is truncated, and then wrong.
    """

    median: float = 2500.0
    hard_factor: float = 3.0
    sigma: float = 0.6
    cap: int = 20480

    def draw(self, rng: random.Random, success: float) -> int:
        """Tokens of one answer, 1 to ``cap``."""
        mu = math.log(self.median) + (1.0 - success) * math.log(self.hard_factor)
        return max(1, min(self.cap, round(math.exp(rng.gauss(mu, self.sigma)))))


def synthetic(
    acceptance: float, groups: int, n: int, seed: int, lengths: LengthModel | None = None
) -> list[TraceGroup]:
    """Draw ``groups`` groups of ``n`` samples, each kept by DAPO's rule with probability ``acceptance``.

    A prompt is useful (success probability uniform on [0.25, 0.75]), hopeless (0) or solved (1), the last two equally
    often. Raises ``ValueError`` when n samples are too few for that acceptance.
    """
    most = acceptance_of_useful(n)
    if not 0.0 < acceptance <= most:
        raise ValueError(f"--acceptance {acceptance} with --samples {n}: give more than 0 and at most {most:.2f}")
    rng = random.Random(seed)
    model = lengths or LengthModel()
    return [_draw_group(rng, acceptance / most, n, model, order) for order in range(groups)]


def _draw_group(rng: random.Random, useful: float, n: int, model: LengthModel, order: int) -> TraceGroup:
    success = rng.uniform(EASY_ACC, HARD_ACC) if rng.random() < useful else float(rng.random() < 0.5)
    acc = [float(rng.random() < success) for _ in range(n)]
    drawn = [model.draw(rng, success) for _ in range(n)]
    # A truncated answer is wrong, so a right one ends just below the cap: correctness keeps its distribution.
    tokens = [min(t, model.cap - 1) if right else t for t, right in zip(drawn, acc, strict=True)]
    return TraceGroup(acc, tokens, [t >= model.cap for t in tokens], uid=f"g{order}", order=order)
