"""verl's own sampler, run against a fake queue and a fake clock: the class itself, not a copy of its idea.

``verl.trainer.ppo.v1.replay_buffer.ReplayBuffer`` reads a TransferQueue and sleeps between polls. Both are module names
there (``tq``, ``time``); here they are replaced for the length of a step by a queue that the decode engine fills and a
clock that the engine drives. A sleep lasts until the first poll that can see a change: polls that see none do nothing.
"""

from __future__ import annotations

import math
from typing import Any
from unittest import mock

from recipe.sampling_policies import POLL_S, Rollout


class FakeQueue:
    """The four calls of TransferQueue that the sampler makes, over the groups of one rollout.

    A group's n trajectories are shown as two, its lowest and its highest accuracy: the sampler asks whether the
    standard deviation of a group is zero, and these two answer that as the n do.
    """

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout
        self.items: dict[str, dict[str, Any]] = {}

    def send(self, count: int) -> None:
        """Dispatch prompts; the sampler's ``refill_fn``."""
        for uid in self.rollout.send(count):
            self.items[uid] = {"is_prompt": True, "status": "running", "global_steps": 0}

    def finish(self, uids: list[str]) -> None:
        """Groups that the engine has finished become visible."""
        for uid in uids:
            self.items[uid]["status"] = "finished"
            self.items |= {f"{uid}_{i}_0": {"status": "success"} for i in range(2)}

    def kv_list(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Tags by partition and key."""
        return {"train": self.items}

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, list[Any]]:
        """Accuracy of trajectories, where verl's agent loop puts it."""
        return {select_fields[0]: [{"reward_extra_info": {"acc": self._accuracy(key)}} for key in keys]}

    def kv_clear(self, partition_id: str, keys: list[str]) -> None:
        """Forget keys."""
        for key in keys:
            self.items.pop(key, None)

    def _accuracy(self, key: str) -> float:
        uid, session, _ = key.split("_")
        acc = self.rollout.sent[uid].acc
        return max(acc) if int(session) else min(acc)


class FakeClock:
    """The two calls of ``time`` that the sampler makes, in engine seconds."""

    def __init__(self, queue: FakeQueue) -> None:
        self.queue = queue

    def time(self) -> float:
        """Seconds since the engine started."""
        return self.queue.rollout.engine.now

    def sleep(self, seconds: float) -> None:
        """Sleep until the first poll that can see a change."""
        if math.isinf(self.queue.rollout.engine.next_group_end()):
            raise RuntimeError("verl's sampler waits with nothing in flight: it would wait for ever")
        self.queue.finish(self.queue.rollout.wait(seconds))


class VerlBuiltin:
    """``ReplayBuffer`` with its defaults and ``filter_groups.metric=acc``; ``max_inflight`` in train batches."""

    def __init__(self, max_inflight: int = 1) -> None:
        self.max_inflight = max_inflight

    def step(self, rollout: Rollout, needed: int) -> list[str]:
        """One ``sample`` call after verl's own first dispatch of a train batch."""
        from verl.trainer.ppo.v1 import replay_buffer as module  # heavy, and only this policy needs it

        queue = FakeQueue(rollout)
        with mock.patch.object(module, "tq", queue), mock.patch.object(module, "time", FakeClock(queue)):
            sampler = module.ReplayBuffer(
                trainer_mode="sync",
                trainer_config={},
                max_off_policy_threshold=None,
                max_off_policy_strategy="drop",
                sampler_kwargs={},
                poll_interval=POLL_S,
                refill_fn=queue.send,
                filter_groups_metric="acc",
                train_batch_size=needed,
                gen_batch_size=1,
                max_inflight_gen_batches=self.max_inflight,
            )
            queue.send(needed)
            batch, _ = sampler.sample(global_steps=0, partition_id="train", batch_size=needed)
        return list(dict.fromkeys(key.split("_")[0] for key in batch.keys))
