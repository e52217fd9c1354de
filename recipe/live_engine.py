"""verl's FSDP engine that also counts the sequences left in the loss, for ``recipe.policy_loss``.

verl counts the tokens of a mini-batch over all ranks before it splits it into micro-batches
(``workers/engine/fsdp/transformer_impl.py``, ``forward_backward_batch``); this does the same for sequences. Importing
the module registers the engine under a vendor name of its own, ``VERL_ENGINE_VENDOR=dapo_recipe`` selects it, and
verl's classes stay what they are. Upstream would have to assign the number of live sequences beside
``batch_num_tokens``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from verl.utils.device import get_device_id
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from recipe.policy_loss import live_sequences

VENDOR = "dapo_recipe"


def count_live(loss_mask: torch.Tensor) -> int:
    """Sequences with at least one token in the loss; ``loss_mask`` is (sequences, tokens), nested or padded."""
    return sum(bool(row.any()) for row in loss_mask.unbind())


def count_live_everywhere(loss_mask: torch.Tensor, group: torch.distributed.ProcessGroup | None) -> int:
    """``count_live`` summed over the ranks of ``group``; a collective call."""
    count = torch.tensor(count_live(loss_mask), device=get_device_id())
    torch.distributed.all_reduce(count, op=torch.distributed.ReduceOp.SUM, group=group)
    return int(count.item())


@EngineRegistry.register(
    model_type="language_model", backend=["fsdp", "fsdp2"], device=["cuda", "npu", "cpu"], vendor=VENDOR
)
class LiveSequenceEngine(FSDPEngineWithLMHead):
    """Announces the live sequences of every mini-batch while its micro-batches run."""

    def forward_backward_batch(
        self, data: TensorDict, loss_function: Callable, forward_only: bool = False
    ) -> list[TensorDict]:
        """As verl's; the policy loss sees the count through ``policy_loss.live_sequences``."""
        with live_sequences(count_live_everywhere(data["loss_mask"], self.get_data_parallel_group())):
            return super().forward_backward_batch(data, loss_function, forward_only=forward_only)
