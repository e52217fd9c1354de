"""Names and random seeds of groups that the run's seed alone decides, whoever finishes first. Pure.

A group is named after the position of its prompt in all that the run fetches, which its checkpoints keep. So a start
twice with one seed, or a step done again after a kill, gives a prompt the same name, and where the engine takes a seed
per request (`recipe.cpu.group_rollout`) the same answers.
"""

import hashlib
import uuid

_NAMESPACE = uuid.UUID("5d1c5f8e-3c4b-4f0b-9a53-6d1c1a0e7b11")
_SEED_BYTES = 6


def group_uid(seed: int, position: int) -> str:
    """Name of the group whose prompt is the `position`-th (from 0) that the run fetches."""
    return str(uuid.uuid5(_NAMESPACE, f"{seed}/{position}"))


def sampling_seed(uid: str) -> int:
    """Seed of a group's first sample, 48 bits; the engine adds a sample's number."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:_SEED_BYTES], "big")
