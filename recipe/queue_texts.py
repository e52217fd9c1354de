"""Reads samples out of verl's TransferQueue as text: a thin shell, the one place that knows the names of its fields."""

from collections.abc import Callable
from typing import Any

import transfer_queue as tq

from recipe.examples import Texts


def read_texts(keys: list[str], partition_id: str, decode: Callable[[list[int]], str]) -> dict[str, Texts]:
    """Prompt, response and gold of finished samples by key; `decode` turns token ids, without padding, into text."""
    fields = ["prompts", "responses", "reward_model"]
    data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=fields)
    rows = zip(keys, data["prompts"].unbind(), data["responses"].unbind(), data["reward_model"], strict=True)
    return {
        key: Texts(decode(prompt.tolist()), decode(answer.tolist()), _gold(gold)) for key, prompt, answer, gold in rows
    }


def _gold(value: Any) -> str:
    return str(getattr(value, "data", value).get("ground_truth", ""))
