"""Which faults a campaign does, in which order and when: a function of count and seed. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

LIVE = (
    "kill_driver",
    "kill_trainer",
    "kill_engine",
    "kill_raylet",
    "kill_reward",
    "kill_prefork",
    "sigterm",
    "full_disk",
    "clock_jump",
)
"""Faults of a run that is going on."""
AT_REST = ("truncated_checkpoint", "corrupted_data", "missing_rollout")
"""Damage to the files of a run that has ended."""
KINDS = (*LIVE, *AT_REST)
LOOP, TRAIN = "recipe.loop", "recipe.main_dapo"
_EARLY = 0.2  # share of the kills that come while the stack starts
_START_S = (5.0, 35.0)  # when, in seconds after the command
_STEP_S = (0.0, 2.5)  # or in seconds after a step was logged: sampling, updating or saving
_ANY_MOMENT = ("kill_driver", "kill_raylet", "sigterm")  # the others' victims are not there from the first second


@dataclass(frozen=True)
class Fault:
    """One fault. `by` is the module that the run is started with; None for damage at rest.

    A live one comes `delay_s` after so many `steps` were trained since the start; with 0 steps, after the command.
    """

    number: int
    kind: str
    by: str | None = None
    steps: int = 0
    delay_s: float = 0.0

    @property
    def live(self) -> bool:
        """Whether it needs a run that is going on."""
        return self.by is not None

    def __str__(self) -> str:
        """One line for people."""
        if not self.live:
            return f"{self.kind} at rest"
        when = f"{self.delay_s:.1f} s after " + (f"{self.steps} step(s)" if self.steps else "the command")
        return f"{self.kind} of {self.by}, {when}"


def plan(count: int, seed: int, kinds: Sequence[str] = KINDS) -> list[Fault]:
    """Return `count` faults, every kind about as often as any other.

    The first is live and done to the loop, which makes data and base model, once it has two checkpoints. Damage at rest
    always follows a run that has trained, at most one at a time: two checkpoints are kept, so a run may lose one.

    Raises:
        ValueError: a kind is unknown, or there are too few live faults for those at rest.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise ValueError(f"unknown faults {', '.join(unknown)}: use some of {', '.join(KINDS)}")
    rng = random.Random(seed)
    names = [kinds[i % len(kinds)] for i in range(count)]
    rng.shuffle(names)
    live = [name for name in names if name in LIVE]
    resting = [name for name in names if name in AT_REST]
    if len(resting) > len(live):
        raise ValueError(f"{len(resting)} faults at rest need as many live ones: add some of {', '.join(LIVE)}")
    followed = set(rng.sample(range(len(live)), len(resting)))
    faults: list[Fault] = []
    for i, name in enumerate(live):
        first = i == 0
        early = not first and i not in followed and name in _ANY_MOMENT and rng.random() < _EARLY * len(LIVE) / 3
        steps = 2 if first else 0 if early else rng.choice((1, 1, 2))
        delay_s = round(rng.uniform(*(_START_S if early else _STEP_S)), 2)
        faults.append(Fault(len(faults), name, LOOP if first else rng.choice((LOOP, TRAIN)), steps, delay_s))
        if i in followed:
            faults.append(Fault(len(faults), resting.pop()))
    return faults
