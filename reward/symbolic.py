"""Mathematical comparison in worker processes: killed and replaced when late, safe from any thread, never hanging."""

import atexit
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence

# Seconds that one grading call may spend on mathematics, all its questions together.
LIMIT_S = 5.0
# A worker imports sympy and math-verify once; on a busy two-core machine that has taken 10 s. Not part of the limit.
START_LIMIT_S = 120.0
_MAX_TEXT = 600
_MAX_DEPTH = 25
_MAX_POWERS = 3
_CACHE_SIZE = 20_000
_BOOT = "import json,sys; sys.path[:] = json.loads(sys.argv[1]); from reward.worker import main; main()"


class WorkerFailed(Exception):
    """The worker was late or died; the argument says which."""


class _NotReady(Exception):
    """A replacement is still loading its libraries when the caller's time is up."""


class Worker:
    """One child interpreter behind two pipes. Not shared between threads at the same time."""

    def __init__(self, replacement: bool = False) -> None:
        self.replacement = replacement
        paths = [path or os.getcwd() for path in sys.path]
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps([root, *paths])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        self._buffer = b""
        self.ready = False

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def start(self, limit: float) -> None:
        """Wait until the child has loaded its libraries."""
        if not self.ready:
            if self._read_line(time.monotonic() + limit).strip() != b"ready":
                raise WorkerFailed("start")
            self.ready = True

    def ask(self, question: Sequence[object], limit: float) -> tuple[bool, str]:
        """Put one question and wait at most ``limit`` seconds for the answer."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps([*question, limit]).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise WorkerFailed("died") from error
        equal, note = json.loads(self._read_line(time.monotonic() + limit))
        return bool(equal), str(note)

    def _read_line(self, deadline: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        poll = select.poll()
        poll.register(stdout.fileno(), select.POLLIN | select.POLLHUP)
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise WorkerFailed("timeout")
            chunk = os.read(stdout.fileno(), 65536)
            if not chunk:
                raise WorkerFailed("died")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def kill(self) -> None:
        """End the child at once and reap it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # unsent bytes to a dead child
                    continue
        self._process.wait()


class Pool:
    """At most ``size`` workers, started when first needed. Threads queue for them; a fork starts with none."""

    def __init__(self, size: int = 2) -> None:
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        self._known: OrderedDict[tuple[str, str, str], bool] = OrderedDict()
        self._pid = os.getpid()
        self._loading, self._loaded_at = 0, 0.0  # first starts under way, and when the last one ended
        self.counts: Counter[str] = Counter()

    def compare(self, operation: str, gold: str, pred: str, limit: float) -> tuple[bool, float, str]:
        """Answer of a worker, seconds of the limit that it used, and a note ("timeout", "died", an error's name)."""
        key = (operation, gold, pred)
        with self._lock:
            if key in self._known:
                return self._known[key], 0.0, ""
        begin = time.monotonic()
        while not self._slots.acquire(timeout=max(limit, 0.1) if self._loading else limit):
            if not self._loading:
                self.counts["timeout"] += 1
                return False, limit, "timeout"
        begin = max(begin, self._loaded_at)  # the first start of another's worker is not charged either
        try:
            return self._ask(key, limit, begin)
        finally:
            self._slots.release()

    def _ask(self, key: tuple[str, str, str], limit: float, begin: float) -> tuple[bool, float, str]:
        worker = self._take()
        try:
            begin += self._wait_until_ready(worker, begin + limit)
            equal, note = worker.ask(key, max(0.0, begin + limit - time.monotonic()))
        except _NotReady:
            self._idle_again(worker)
            self.counts["timeout"] += 1
            return False, time.monotonic() - begin, "timeout"
        except (WorkerFailed, ValueError) as error:
            self._replace(worker)
            self.counts[str(error)] += 1
            return False, time.monotonic() - begin, str(error)
        self._give(worker, key, equal)
        self.counts["asked"] += 1
        return equal, time.monotonic() - begin, note

    def _wait_until_ready(self, worker: Worker, deadline: float) -> float:
        """Seconds to add to the deadline: a first start is not charged, that of a replacement is."""
        now = time.monotonic()
        if worker.ready:
            return 0.0
        if not worker.replacement:
            with self._lock:
                self._loading += 1
            try:
                worker.start(START_LIMIT_S)
            finally:
                with self._lock:
                    self._loading, self._loaded_at = self._loading - 1, time.monotonic()
            return time.monotonic() - now
        try:
            worker.start(max(0.0, deadline - now))
        except WorkerFailed as error:
            if str(error) == "timeout":
                raise _NotReady from error
            raise
        return 0.0

    def _take(self) -> Worker:
        with self._lock:
            worker = self._idle.pop() if self._idle else Worker()
            self._busy.append(worker)
            return worker

    def _idle_again(self, worker: Worker) -> None:
        with self._lock:
            self._busy.remove(worker)
            self._idle.append(worker)

    def _give(self, worker: Worker, key: tuple[str, str, str], equal: bool) -> None:
        self._idle_again(worker)
        with self._lock:
            self._known[key] = equal
            while len(self._known) > _CACHE_SIZE:
                self._known.popitem(last=False)

    def _replace(self, worker: Worker) -> None:
        """Kill a worker; another loads its libraries while nobody waits for it."""
        worker.kill()
        fresh = Worker(replacement=True)
        with self._lock:
            self._busy.remove(worker)
            self._idle.append(fresh)

    def pids(self) -> list[int]:
        """Process ids of the live workers."""
        with self._lock:
            return [worker.pid for worker in (*self._idle, *self._busy)]

    def close(self) -> None:
        """Kill all workers; in a forked child, only forget them."""
        with self._lock:
            workers, self._idle, self._busy = [*self._idle, *self._busy], [], []
        if os.getpid() == self._pid:
            for worker in workers:
                worker.kill()

    def usable(self) -> bool:
        """Whether this process created the pool (a fork must not share its pipes)."""
        return os.getpid() == self._pid


_pool: Pool | None = None
_pool_lock = threading.Lock()


def pool() -> Pool:
    """The process-wide pool."""
    global _pool
    with _pool_lock:
        if _pool is None or not _pool.usable():
            _pool = Pool()
            atexit.register(_pool.close)
        return _pool


def _after_fork() -> None:
    """A forked child may inherit locked locks: start afresh."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def too_complex(text: str) -> bool:
    """Whether a text is not worth a worker's time: too long, too deep, or a tower of powers."""
    if len(text) > _MAX_TEXT or "\x00" in text:
        return True
    depth = deepest = powers = 0
    stack: list[int] = []
    for at, char in enumerate(text):
        if char in "{([":
            stack.append(1 if char == "{" and at and text[at - 1] == "^" else 0)
            depth, powers = depth + 1, sum(stack)
            deepest = max(deepest, depth)
            if powers > _MAX_POWERS or deepest > _MAX_DEPTH:
                return True
        elif char in "})]" and stack:
            stack.pop()
            depth -= 1
    return re.search(r"\^ ?\{?\(?[0-9]{5,}|!!|[0-9]{5,}\)? ?!|\^[^{ ]\^", text) is not None


class Mathematics:
    """``reward.compare.Symbolic`` for one grading call: at most ``limit`` seconds in all; notes what went wrong."""

    def __init__(self, limit: float = LIMIT_S) -> None:
        self._left = limit
        self.notes: list[str] = []

    def __call__(self, operation: str, gold: str, pred: str) -> bool:
        """Whether two texts are the same mathematics; False when that could not be decided in time."""
        if too_complex(gold) or too_complex(pred):
            self.notes.append("too_complex")
            return False
        if self._left <= 0:
            self.notes.append("timeout")
            return False
        equal, used, note = pool().compare(operation, gold, pred, self._left)
        self._left -= used
        if note:
            self.notes.append(note)
        return equal
