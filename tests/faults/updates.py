"""Do weights and moments of one checkpoint follow from those of another? By Adam's own equations.

With g the clipped gradient of an update, b1 and b2 the betas, m and v the moments (Kingma and Ba, algorithm 1):

    m' = b1 m + (1 - b1) g        v' = b2 v + (1 - b2) g^2        |w' - w| <= lr (|m'^| / (sqrt(v'^) + eps) + decay |w|)

so both moments tell the size of the same g, v cannot fall faster than b2, and no weight moves further. What began anew,
from other weights or from empty moments, breaks one of the three.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_TOLERANCE = 1e-3
"""Of float32 differences, as a share of the largest value of a parameter's tensor."""


@dataclass(frozen=True)
class Saved:
    """Weights and moments of a checkpoint with one rank, tensor by tensor, and the optimizer's settings."""

    weights: list[torch.Tensor]
    first: list[torch.Tensor]
    second: list[torch.Tensor]
    step: int
    settings: dict

    @classmethod
    def read(cls, checkpoint: Path) -> "Saved":
        """Read verl's files of `global_step_N`."""
        logging.getLogger("torch.distributed.device_mesh").setLevel(logging.ERROR)  # of a mesh that is only read
        model, optimizer = (
            torch.load(checkpoint / "actor" / f"{kind}_world_size_1_rank_0.pt", weights_only=False)
            for kind in ("model", "optim")
        )
        (settings,) = optimizer["param_groups"]
        states = [optimizer["state"][index] for index in settings["params"]]
        weights = list(model.values())[: len(states)]  # the head, tied to the embedding, comes once more
        first, second = ([_local(state[name]) for state in states] for name in ("exp_avg", "exp_avg_sq"))
        return cls([_local(w) for w in weights], first, second, int(states[0]["step"]), settings)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).double()


def problems(before: Saved, after: Saved) -> list[str]:
    """Say what of `after` cannot come from `before` by the updates between the two."""
    count = after.step - before.step
    if count < 1:
        return [f"the optimizer has made {after.step} updates, {before.step} before"]
    names = sorted({name for name, wrong in _checks(before, after, count) if wrong})
    return [f"{name} after {count} update(s) cannot come from the checkpoint before" for name in names]


def _checks(before: Saved, after: Saved, count: int) -> Iterator[tuple[str, bool]]:
    b1, b2 = after.settings["betas"]
    lr, decay, eps = (after.settings[name] for name in ("initial_lr", "weight_decay", "eps"))
    pairs = zip(before.weights, after.weights, before.first, after.first, before.second, after.second, strict=True)
    for w, w2, m, m2, v, v2 in pairs:
        yield "the second moment", _beyond(b2**count * v, v2)
        if count > 1:
            yield "weights", (w2 - w).abs().mean().item() > 1.1 * lr * count
            continue
        by_first = (m2 - b1 * m).abs() / (1 - b1)
        by_second = ((v2 - b2 * v).clamp(min=0) / (1 - b2)).sqrt()
        yield "the first moment", _beyond(by_first, by_second, 10 * _TOLERANCE * by_second.max().item())
        corrected = m2.abs() / (1 - b1**after.step), v2 / (1 - b2**after.step)
        most = lr * (corrected[0] / (corrected[1].sqrt() + eps) + decay * w.abs())
        yield "weights", _beyond((w2 - w).abs(), most, 1e-6)


def _beyond(small: torch.Tensor, large: torch.Tensor, slack: float | None = None) -> bool:
    """Whether an element of `small` is above its one of `large` by more than rounding."""
    slack = _TOLERANCE * large.abs().max().item() if slack is None else slack
    return bool((small > large + slack).any())
