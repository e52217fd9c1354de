"""A rollout engine without a model: answers of known length wait for one of a number of decode slots. Event-driven."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable


class DecodeEngine:
    """First come, first served; every slot decodes ``tokens_per_second``; time starts at 0 seconds.

    A group is finished when its last sample is: one long answer holds back the whole group, as in a real rollout.
    """

    def __init__(self, slots: int, tokens_per_second: float) -> None:
        if slots < 1 or tokens_per_second <= 0:
            raise ValueError(f"slots={slots} and tokens_per_second={tokens_per_second} must be positive")
        self.slots = slots
        self.speed = tokens_per_second
        self.now = 0.0
        self.decoded: dict[str, int] = {}  # tokens by group, counted when a sample ends or is aborted
        self.arrived: dict[str, list[int]] = {}  # samples of a group in the order in which they ended
        self._touched: set[str] = set()
        self._running: list[tuple[float, int, str, int, float]] = []  # end, tie-break, group, sample, start
        self._waiting: deque[tuple[str, int, int]] = deque()  # group, sample, tokens
        self._left: dict[str, int] = {}  # samples of a group still to come
        self._done: list[str] = []
        self._busy = self._serial = 0

    def submit(self, uid: str, lengths: Iterable[int]) -> None:
        """Queue the samples of one group now; ``lengths`` in tokens."""
        samples = list(lengths)
        self._left[uid], self.decoded[uid], self.arrived[uid] = len(samples), 0, []
        self._waiting.extend((uid, i, tokens) for i, tokens in enumerate(samples))
        self._fill()

    def advance(self, until: float) -> list[str]:
        """Run to ``until`` seconds; the groups that finished since the last call, in order of completion."""
        while self._running and self._running[0][0] <= until:
            self._finish_one()
        self.now = max(self.now, until)
        done, self._done = self._done, []
        return done

    def take_touched(self) -> set[str]:
        """Groups of which a sample has ended since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def next_sample_end(self) -> float:
        """When the next sample ends; inf when nothing is left to run."""
        return self._running[0][0] if self._running else math.inf

    def next_group_end(self) -> float:
        """Run until some group is finished and return when; inf when nothing is left to run."""
        while self._running and not self._done:
            self._finish_one()
        return self.now if self._done else math.inf

    def abort(self, uids: Iterable[str]) -> None:
        """Stop groups at once; what they have decoded so far stays in ``decoded``."""
        gone = {uid for uid in uids if self._left.pop(uid, None)}
        self._waiting = deque(item for item in self._waiting if item[0] not in gone)
        for _, _, uid, _, start in self._running:
            if uid in gone:
                self._busy -= 1
                self.decoded[uid] += int((self.now - start) * self.speed)
        self._running = [item for item in self._running if item[2] not in gone]
        heapq.heapify(self._running)
        self._fill()

    def _fill(self) -> None:
        while self._busy < self.slots and self._waiting:
            uid, sample, tokens = self._waiting.popleft()
            self._busy += 1
            self._serial += 1
            heapq.heappush(self._running, (self.now + tokens / self.speed, self._serial, uid, sample, self.now))

    def _finish_one(self) -> None:
        end, _, uid, sample, start = heapq.heappop(self._running)
        self.now = max(self.now, end)
        self._busy -= 1
        self.decoded[uid] += round((end - start) * self.speed)
        self.arrived[uid].append(sample)
        self._touched.add(uid)
        self._left[uid] -= 1
        if not self._left[uid]:
            del self._left[uid]
            self._done.append(uid)
        self._fill()
