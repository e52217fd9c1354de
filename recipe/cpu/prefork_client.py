"""Stands in for `python`: asks the server of `recipe.cpu.prefork` for a process that has imported everything.

    python -I -S prefork_client.py EXECUTABLE SOCKET (program.py | -c CODE) ARGUMENT ...

EXECUTABLE is the script that runs this. Imports the standard library alone, for it must start in a moment. It stays
while the worker lives, whose status is its own.
"""

import json
import os
import socket
import sys


def ask(executable: str, address: str, command: list[str]) -> int | None:
    """The exit status of the worker that runs `command`; None when no worker could be had."""
    files = [int(name) for name in os.listdir("/proc/self/fd")]
    files = [file for file in files if os.path.exists(f"/proc/self/fd/{file}")]  # without that of the listing itself
    request = {"executable": executable, "argv": command, "environ": dict(os.environ), "cwd": os.getcwd()}
    body = json.dumps(request | {"files": files}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address)
            socket.send_fds(connection, [len(body).to_bytes(8, "big")], files)
            connection.sendall(body)
            if not connection.recv(1):
                return None
        except OSError:
            return None
        for file in files:
            if file > 2:
                os.close(file)  # the other end of a pipe waits for its last holder
        try:
            status = connection.recv(1)
        except OSError:
            status = b""
    return status[0] if status else 1


def main() -> None:
    """Hand over, or become a plain python when nobody answers."""
    executable, address, *command = sys.argv[1:]
    status = ask(executable, address, command)
    if status is None:
        os.execv(sys.executable, [sys.executable, *command])
    sys.exit(status)


if __name__ == "__main__":
    main()
