"""Keeps the forks of one process from drawing the same Ray ids.

Ray's C++ draws ids from a generator that is seeded at its first use and knows nothing of forks: of a process that has
used it, every fork draws the same ids in the same order. Two workers that start at once then make the same object in
Ray's store, and the later one dies over it ("Seal() called on an object without a reference to it"). Importing Ray does
not use it; a class with `@ray.remote` draws one id.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def drawn_from_the_system() -> Iterator[None]:
    """Inside, classes with `@ray.remote` get ids of the operating system's; imports Ray.

    Raises:
        RuntimeError: Ray draws them elsewhere.
    """
    import ray.actor

    theirs: Any = getattr(ray.actor, "ActorClassID", None)
    if theirs is None or not hasattr(theirs, "from_random"):
        raise RuntimeError(
            "recipe.cpu.prefork.ids: ray.actor.ActorClassID.from_random is gone. The pinned Ray has changed: see where "
            "it draws the id of an actor's class now"
        )

    class ActorClassID:
        @staticmethod
        def from_random():
            return theirs(os.urandom(theirs.size()))

    ray.actor.ActorClassID = ActorClassID
    try:
        yield
    finally:
        ray.actor.ActorClassID = theirs


def forks_share() -> bool:
    """Whether two forks of this process, which has imported Ray, draw the same id."""
    return _drawn_by_a_fork() == _drawn_by_a_fork()


def _drawn_by_a_fork() -> bytes:
    from ray import ObjectRef

    receiver, sender = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(sender, ObjectRef.from_random().binary())
        os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, "rb") as stream:
        drawn = stream.read()
    os.waitpid(pid, 0)
    return drawn
