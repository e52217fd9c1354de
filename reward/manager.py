"""verl 0.9.1 reward manager: a thin shell that decodes one response and hands it to the pure scoring functions.

Plugged in with ``reward.reward_manager.{source: importlib, name: DAPORewardManager, module.path: pkg://reward.manager}``;
its settings are ``reward.reward_kwargs``. Departs from verl's ``dapo`` manager: the penalty stops at ``-factor``, the
response is graded on all of its text, and every sample returns the same keys.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from omegaconf import OmegaConf
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from reward.overlong import is_truncated
from reward.scoring import score_sample
from reward.settings import RewardSettings

# Grading threads of one reward worker. Decoding dominates; two keep the event loop free without fighting over cores.
_THREADS = 2


class DAPORewardManager(RewardManagerBase):
    """Scores one response at a time: correctness in the configured mode plus the soft overlong punishment."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        """Read ``config.reward.reward_kwargs``; ``compute_score`` and router arguments of verl are not used.

        Raises:
            ValueError: a reward key is unknown or wrong.
        """
        super().__init__(config, tokenizer, compute_score)
        self.settings = RewardSettings.from_kwargs(_plain(config.reward.get("reward_kwargs", None)))
        self._special = frozenset(int(i) for i in tokenizer.all_special_ids)
        self._pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="reward")

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """Score the last row of ``data``; see ``reward.scoring.score_sample`` for the keys.

        Returns:
            ``{"reward_score": float, "reward_extra_info": dict}``.
        """
        item = data[-1:][0]
        ids = _response_ids(item)
        gold = item.non_tensor_batch["reward_model"]["ground_truth"]
        reason = (item.non_tensor_batch.get("tool_extra_fields") or {}).get("finish_reason")
        loop = asyncio.get_running_loop()
        score, info = await loop.run_in_executor(self._pool, self.score_ids, ids, gold, reason)
        return {"reward_score": score, "reward_extra_info": info}

    def score_ids(self, ids: list[int], gold: Any, finish_reason: str | None = None) -> tuple[float, dict[str, Any]]:
        """Score response token ids against ``gold``; without a finish reason, truncation is read off the length."""
        plain = self.tokenizer.decode(ids, skip_special_tokens=True)
        inner_special = not self._special.isdisjoint(ids[:-1])
        text = self.tokenizer.decode(ids, skip_special_tokens=False) if inner_special else plain
        truncated = self._truncated(ids) if finish_reason is None else finish_reason == "length"
        return score_sample(text, plain, gold, len(ids), truncated, self.settings)

    def _truncated(self, ids: list[int]) -> bool:
        """At the limit and not ended by a special token."""
        limit = self.settings.max_resp_len or self.config.data.max_response_length
        return is_truncated(ids, limit, self._special)


def _plain(node: Any) -> dict[str, Any] | None:
    """OmegaConf or plain mapping to a resolved dict; None stays None."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node  # type: ignore[return-value]


def _response_ids(item: Any) -> list[int]:
    """Token ids of one response without its padding (right-padded, mask 1 on real tokens)."""
    responses = item.batch["responses"]
    count = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
    return responses[:count].tolist()
