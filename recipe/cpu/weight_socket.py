"""Where a trainer and its engine meet to hand over weights: the run's own temporary folder instead of `/tmp`."""

import tempfile

import zmq

_VERLS = "ipc:///tmp/"
_LONGEST = 107  # bytes that a socket's path may have
WAIT_S = 100.0  # for an engine to take a bucket of weights


def own_socket(handle: str) -> str:
    """Return verl's socket `handle` in this process's temporary folder; where that path is too long, as it is.

    verl names the socket by the job's number in its Ray cluster. That is 1 in every cluster that is started for one
    run, so two runs on one machine would meet in `/tmp`.

    Raises:
        RuntimeError: verl's socket is no longer in `/tmp`.
    """
    if not handle.startswith(_VERLS):
        raise RuntimeError(f"recipe.cpu.weight_socket: verl's socket is {handle}, not below {_VERLS}; read its source")
    path = f"{tempfile.gettempdir()}/{handle.removeprefix(_VERLS)}"
    return f"ipc://{path}" if len(path.encode()) <= _LONGEST else handle


def limit_waits(socket: zmq.Socket, seconds: float = WAIT_S) -> None:
    """Let a socket raise `zmq.Again` where it would wait longer for its other end, and not wait for it at its end."""
    for option in (zmq.SNDTIMEO, zmq.RCVTIMEO):
        socket.setsockopt(option, round(1000 * seconds))
    socket.setsockopt(zmq.LINGER, 0)
