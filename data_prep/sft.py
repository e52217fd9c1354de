"""Supervised learning on answers: batches of (prompt ids, response ids), and one update on the responses' tokens."""

import random
from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

IGNORED = -100  # label of tokens that carry no loss
Example = tuple[list[int], list[int]]


def batches(
    stream: Iterator[Example], size: int, pad: int, rng: random.Random
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield `(input_ids, labels)` of shape (size, length), right-padded; answers of like length share a batch.

    `stream` of (prompt ids, response ids) must not end.
    """
    while True:
        pool = sorted((next(stream) for _ in range(size * 8)), key=lambda e: len(e[0]) + len(e[1]))
        chunks = [pool[i : i + size] for i in range(0, len(pool), size)]
        rng.shuffle(chunks)
        for chunk in chunks:
            length = max(len(p) + len(r) for p, r in chunk)
            ids = [p + r + [pad] * (length - len(p) - len(r)) for p, r in chunk]
            labels = [[IGNORED] * len(p) + r + [IGNORED] * (length - len(p) - len(r)) for p, r in chunk]
            yield torch.tensor(ids), torch.tensor(labels)


def update(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, ids: torch.Tensor, labels: torch.Tensor, pad: int
) -> float:
    """One update with the gradient's norm clipped at 1; returns the loss in nats a response token."""
    loss = model(input_ids=ids, attention_mask=(ids != pad).long(), labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()
