"""Ends a training on several nodes when one of them dies: by itself it would wait for samples that never come."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger(__name__)

POLL_S = 5.0
GRACE_S = 120.0  # Ray calls a node dead once it has missed five health checks; what talks to its workers fails before
Look = Callable[[], list[str] | None]
_SHOWN = 300  # characters of an error
_WAKE = signal.SIGUSR1  # SIGINT may be ignored, as below nohup


class NodeLost(RuntimeError):
    """A node that held workers of this training is dead."""


def nodes_of_job(groups: Mapping[str, Mapping[str, Any]], job: str) -> set[str]:
    """Ids of the nodes that a job's placement groups lie on.

    Args:
        groups: what `ray.util.placement_group_table()` returns; the id of a group ends in that of its job.
        job: hexadecimal id of the job.
    """
    mine = (group for name, group in groups.items() if name.endswith(job))
    return {node for group in mine for node in group["bundles_to_node_id"].values()}


def dead(nodes: Iterable[Mapping[str, Any]], used: set[str]) -> list[str]:
    """Those of `ray.nodes()` that are used and not alive, named for people."""
    return [
        f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node.get('DeathReasonMessage') or 'dead'})"
        for node in nodes
        if node["NodeID"] in used and not node["Alive"]
    ]


class JobNodes:
    """Called again and again in a driver: the dead ones of all nodes that its job has used."""

    def __init__(self) -> None:
        self._used: set[str] = set()  # a group that has lost its node forgets it

    def __call__(self) -> list[str] | None:
        """Names of dead nodes, none while Ray does not answer; None as long as the job has used no node."""
        import ray
        from ray.util import placement_group_table

        if not ray.is_initialized():
            return None
        try:
            self._used |= nodes_of_job(placement_group_table(), ray.get_runtime_context().get_job_id())
            return dead(ray.nodes(), self._used) if self._used else None
        except Exception:  # Ray has many; a cluster without its head ends the driver by itself
            return []


def _wait_for(look: Look, error: Exception, poll_s: float, grace_s: float) -> list[str]:
    deadline = time.monotonic() + grace_s
    if (names := look()) == []:
        said = f"{type(error).__name__}: {error}"[:_SHOWN]
        logger.warning("failed (%s); seeing for up to %.0f s whether a node of this training died", said, grace_s)
        while not (names := look()) and time.monotonic() < deadline:
            time.sleep(poll_s)
    return names or []


@contextmanager
def ended_by_a_dead_node(look: Look, poll_s: float = POLL_S, grace_s: float = GRACE_S) -> Iterator[None]:
    """Interrupt the block, which must run in the main thread, once `look` names a dead node.

    When the block fails first, `look` is asked for up to `grace_s` seconds more, unless it says None: a lost worker
    shows as whatever the library that talked to it raises, gloo's and NCCL's errors among them.

    Raises:
        NodeLost: it did, whatever the block itself raised by then.
    """
    found: list[str] = []
    over, main = threading.Event(), threading.main_thread().ident

    def watch() -> None:
        while not over.wait(poll_s):
            if names := look():
                found.extend(names)
                if not over.is_set():
                    signal.pthread_kill(main, _WAKE)  # type: ignore[arg-type]
                return

    thread = threading.Thread(target=watch, name="node-watch", daemon=True)
    before = signal.signal(_WAKE, signal.default_int_handler)
    try:
        thread.start()
        yield
    except BaseException as error:
        over.set()
        if not found and isinstance(error, Exception):
            found.extend(_wait_for(look, error, poll_s, grace_s))
        if found:
            raise NodeLost(
                f"a node of this training died: {', '.join(found)}. The same command resumes from the last checkpoint "
                "once the cluster has its nodes again (ray status)"
            ) from error
        raise
    finally:
        over.set()
        if thread.ident is not None:
            thread.join(poll_s)
        signal.signal(_WAKE, before)
