"""Stands in for `python`: asks the server of `recipe.cpu.prefork` for a process that has imported everything.

    python -I -S client.py EXECUTABLE SOCKET (program.py | -c CODE) ARGUMENT ...

EXECUTABLE is the script that runs this. Imports the standard library alone, for it must start in a moment. It stays
while the worker lives: SIGTERM is the worker's, its end is the worker's end, and it ends as the worker does.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def ask(executable: str, address: str, command: list[str]) -> int | None:
    """How the worker that runs `command` ended, a negative number is a signal; None when no worker could be had."""
    files = [int(name) for name in os.listdir("/proc/self/fd")]
    files = [file for file in files if os.path.exists(f"/proc/self/fd/{file}")]  # without that of the listing itself
    terminated = []
    with socket.socket(socket.AF_UNIX) as connection:

        def hand_on(*_):
            terminated.append(True)
            connection.shutdown(socket.SHUT_WR)

        try:
            request = {"executable": executable, "argv": command, "environ": dict(os.environ), "cwd": os.getcwd()}
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)
            body = json.dumps(request | {"files": files, "open_files": limit}).encode()
            connection.connect(address)
            socket.send_fds(connection, [len(body).to_bytes(8, "big")], files)
            connection.sendall(body)
            signal.signal(signal.SIGTERM, hand_on)
            if not connection.recv(1):
                return -signal.SIGTERM if terminated else None
        except OSError:
            return -signal.SIGTERM if terminated else None
        for file in files:
            if file > 2:
                os.close(file)  # the other end of a pipe waits for its last holder
        try:
            status = connection.recv(2)
        except OSError:
            status = b""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return int.from_bytes(status, "big", signed=True) if status else 1


def plain(command: list[str]) -> NoReturn:
    """Become a plain python."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, *command])


def main() -> None:
    """Hand over, or become a plain python when no worker is to be had."""
    executable, address, *command = sys.argv[1:]
    if any("multiprocessing.resource_tracker" in word for word in command):
        plain(command)  # it imports little, and must outlive whom it cleans up after
    # a spawned process ends with its parent: with the thread that started it, which for Ray and vLLM is a lasting one
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    status = ask(executable, address, command)
    if status is None:
        print("prefork: no fork to be had for a worker: it imports for itself", file=sys.stderr, flush=True)
        plain(command)
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    main()
