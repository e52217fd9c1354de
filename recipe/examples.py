"""A few responses of every step as text, so that people can read what the model writes; filtered groups too. Pure.

verl dumps the responses that train. What the filter dropped is gone with its group, and with it the answer to "why was
it dropped?". Here `per_kind` samples of each kind are kept each step, one JSON object a line: `step`, `uid`, `kind`,
`prompt`, `response`, `gold`, `pred` (what the grader read, empty when nothing), `acc` (0 to 1), `reward`, `tokens`,
`truncated`, `reason` (of the group filter) and `group_accuracy`.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recipe.group_filter import KEPT
from recipe.provenance import write_text_atomic
from recipe.sampling_metrics import GroupRecord

RIGHT = "right"
WRONG = "wrong"
TRUNCATED = "truncated"
FILTERED = "filtered"
KINDS = (RIGHT, WRONG, TRUNCATED, FILTERED)


@dataclass(frozen=True)
class Texts:
    """What the queue knows of a sample as text."""

    prompt: str
    response: str
    gold: str


@dataclass(frozen=True)
class Example:
    """One sampled response; see the module docstring for the fields (`step` is added when it is written)."""

    uid: str
    kind: str
    prompt: str
    response: str
    gold: str
    pred: str
    acc: float
    reward: float
    tokens: int
    truncated: bool
    reason: str = KEPT
    group_accuracy: float | None = None


def kind_of(acc: float, truncated: bool, reason: str = KEPT) -> str:
    """The kind of a sample: filtered before truncated before right or wrong."""
    if reason != KEPT:
        return FILTERED
    return TRUNCATED if truncated else RIGHT if acc > 0.5 else WRONG


class ExampleLog:
    """Chooses which samples of a step are kept as text, and writes them. `folder` None: off."""

    def __init__(self, folder: str | None, per_kind: int):
        if isinstance(per_kind, bool) or not isinstance(per_kind, int) or per_kind < 0:
            raise ValueError(f"examples.per_kind={per_kind} must be a whole number of at least 0; 0 keeps none")
        self._folder = None if folder is None else Path(folder)
        self._per_kind = 0 if folder is None else per_kind
        self._left: Counter[str] = Counter()
        self._examples: list[Example] = []
        self.begin()

    def begin(self) -> None:
        """Forget the step before."""
        self._left = Counter(dict.fromkeys(KINDS, self._per_kind))
        self._examples = []

    def choose(self, infos: Mapping[str, Mapping[str, Any]], reason: str) -> dict[str, str]:
        """Keys of the samples of one group to keep, with their kinds: one of a kind, as long as the step has room.

        Args:
            infos: what the reward returned for each sample (`acc`, `truncated`, ...), by its key.
            reason: the filter's reason for the group.
        """
        chosen: dict[str, str] = {}
        for key, info in infos.items():
            kind = kind_of(float(info["acc"]), bool(info.get("truncated", False)), reason)
            if self._left[kind] > 0 and kind not in chosen.values():
                chosen[key] = kind
                self._left[kind] -= 1
        return chosen

    def add(
        self,
        chosen: Mapping[str, str],
        texts: Mapping[str, Texts],
        infos: Mapping[str, Mapping[str, Any]],
        record: GroupRecord,
    ) -> None:
        """Keep what `choose` chose of one group; a sample whose text is gone from the queue is left out."""
        for key, text in texts.items():
            info = infos[key]
            self._examples.append(
                Example(
                    uid=key,
                    kind=chosen[key],
                    prompt=text.prompt,
                    response=text.response,
                    gold=text.gold,
                    pred=str(info.get("pred") or ""),
                    acc=float(info["acc"]),
                    reward=float(info["score"]) + float(info.get("overlong_reward", 0.0)),
                    tokens=int(info["length"]),
                    truncated=bool(info.get("truncated", False)),
                    reason=record.reason,
                    group_accuracy=record.group.mean_accuracy,
                )
            )

    def write(self, step: int) -> None:
        """Write `folder/step.jsonl`, in the order of the kinds."""
        if self._folder is None or not self._examples:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        ordered = sorted(self._examples, key=lambda e: KINDS.index(e.kind))
        lines = [json.dumps({"step": step, **asdict(e)}) + "\n" for e in ordered]
        write_text_atomic(self._folder / f"{step}.jsonl", "".join(lines))
