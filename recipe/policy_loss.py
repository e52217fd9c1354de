"""DAPO's policy loss for verl: vanilla's clipped surrogate, averaged over what is left after masking.

Registered as ``dapo`` (``actor_rollout_ref.actor.policy_loss.loss_mode=dapo``) when this module is imported. Without a
masked sequence it returns exactly what verl's ``vanilla`` returns. It departs from it in three places:

* Denominators count **live sequences**, those with at least one token in the loss. verl 0.9.1 divides ``seq-mean-*``
  losses by the configured mini-batch size, so a truncated answer that overlong filtering masked would still weigh on
  the mean. The number must cover the whole mini-batch, all micro-batches and ranks of it, which a loss never sees:
  ``recipe.live_engine`` counts it and announces it through ``live_sequences``.
* A mini-batch with nothing left has loss 0 and zero gradients, not 0/0.
* The clip fractions come apart (DAPO's clip-higher is judged by the high one), and the mean generation probability is
  reported, one of the curves that the paper judges a run by.

Masked samples leave the loss and its denominator only: they still enter the mean and the standard deviation of their
group, so the advantages of the others are what they would be without masking.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla, register_policy_loss

SEQUENCE_MODES = ("seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
"""``loss_agg_mode`` values that average over sequences; the others average or sum over tokens."""

_live: ContextVar[int | None] = ContextVar("live_sequences", default=None)


@contextmanager
def live_sequences(count: int) -> Iterator[None]:
    """Announce how many sequences of the current mini-batch are in the loss, over all micro-batches and ranks."""
    token = _live.set(count)
    try:
        yield
    finally:
        _live.reset(token)


@register_policy_loss("dapo")
def compute_policy_loss_dapo(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Clipped surrogate of one micro-batch, and its metrics as floats.

    All tensors are (sequences, response tokens); ``response_mask`` is true where a token is in the loss, all false for
    a masked (truncated) or padding sequence. ``config`` is verl's ``ActorConfig``; its ``global_batch_info`` gets the
    corrected denominators, which verl's entropy and KL terms of the same micro-batch then use as well.
    Raises ``RuntimeError`` when a sequence is masked and nobody counted the live ones.
    """
    set_denominators(config.global_batch_info, response_mask, loss_agg_mode)
    loss, metrics = compute_policy_loss_vanilla(
        old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config, rollout_is_weights
    )
    low = config.clip_ratio if config.clip_ratio_low is None else config.clip_ratio_low
    high = config.clip_ratio if config.clip_ratio_high is None else config.clip_ratio_high
    ratio = torch.exp(torch.clamp(log_prob.detach() - old_log_prob, min=-20.0, max=20.0))
    shares = {
        "actor/clip_frac_low": (ratio < 1.0 - low) & (advantages < 0),
        "actor/clip_frac_high": (ratio > 1.0 + high) & (advantages > 0),
        "actor/mean_generation_prob": torch.exp(old_log_prob),
    }
    return loss, metrics | {name: masked_average(values, response_mask) for name, values in shares.items()}


def masked_average(values: torch.Tensor, mask: torch.Tensor) -> float:
    """Mean of ``values`` where ``mask`` is true; 0.0 when it is true nowhere."""
    kept = values[mask.bool()].float()
    return float(kept.mean()) if kept.numel() else 0.0


def set_denominators(info: dict[str, Any], response_mask: torch.Tensor, loss_agg_mode: str) -> None:
    """Correct verl's ``global_batch_info`` in place: live sequences, and never a zero.

    ``batch_num_tokens`` already counts unmasked tokens of the whole mini-batch. Where verl gave no global number (one
    rank, one micro-batch) the numbers of this micro-batch are the global ones.
    """
    dp_size = info.get("dp_size") or 1
    tokens, sequences = info.get("batch_num_tokens"), _live.get()
    if tokens is None and dp_size == 1:
        tokens = int(response_mask.sum())
    if sequences is None:
        sequences = _uncounted_sequences(info, response_mask, loss_agg_mode, dp_size)
    info["batch_num_tokens"] = None if tokens is None else max(int(tokens), 1)
    info["global_batch_size"] = None if sequences is None else max(int(sequences), 1)


def _uncounted_sequences(
    info: dict[str, Any], response_mask: torch.Tensor, loss_agg_mode: str, dp_size: int
) -> int | None:
    live = response_mask.bool().any(dim=-1)
    configured = info.get("global_batch_size")
    if configured is None:
        return int(live.sum()) if dp_size == 1 else None
    if loss_agg_mode in SEQUENCE_MODES and not bool(live.all()):
        raise RuntimeError(
            f"loss_agg_mode={loss_agg_mode}: a sequence is masked but nobody counted the live ones of the mini-batch, "
            "so the mean would include it; set VERL_ENGINE_VENDOR=dapo_recipe and load recipe.live_engine in the "
            "workers, or use loss_agg_mode=token-mean"
        )
    return int(configured)
