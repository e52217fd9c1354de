"""The process that imports and forks: `python -m recipe.cpu.prefork.server DRIVER LISTENER EARLY LATE`."""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import setproctitle  # a requirement of vLLM

from recipe.cpu.prefork import ids
from recipe.cpu.prefork.worker import become, end_with_parent, program_of, take_over

_AT_START = ("PYTHONPATH", "PYTHONHASHSEED")  # a process that runs never reads again
_OF_RAY = ("RAY_JOB_ID", "RAY_RAYLET_PID")  # Ray reads them when it is imported
_MOST_FILES = 253  # in one message of a Unix socket
_PATIENCE_S = 10.0  # for what a client has to say


class Server:
    """Forks a worker for each connection, tells its client how it ended, and ends it with its client."""

    def __init__(self, listener: socket.socket, late: Sequence[str], born_with: Mapping[str, str]):
        self._listener = listener
        self._late = list(late)
        self._born_with = {name: born_with.get(name) for name in _AT_START}
        self._of_ray: dict[str, str | None] | None = None
        self._workers: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, connection of its client
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def next_worker(self) -> dict[str, Any]:
        """Serve; returns in every new worker, with the request that it is to carry out."""
        while True:
            file, event = self._poll.poll()[-1]  # one at a time: the next may be of a file that this one closes
            if file == self._listener.fileno():
                if (request := self._fork()) is not None:
                    return request
            elif file in self._workers:
                self._reap(file)
            else:
                self._client_spoke(file, event)

    def _fork(self) -> dict[str, Any] | None:
        client: socket.socket | None = None
        files: list[int] = []
        server = os.getpid()
        try:
            client, _ = self._listener.accept()
            request, files = receive(client)
            if request is None:
                raise OSError("a client broke off")
            self._check(request)
            sys.stdout.flush()
            if (pid := os.fork()) == 0:
                try:
                    end_with_parent(server)
                    self._leave(client)
                    take_over(files, request["files"], request["open_files"])
                except BaseException as error:
                    _say(error)
                    os._exit(1)  # never a second server
                return request
            self._watch(pid, client)
        except OSError as error:  # the client then becomes a plain python
            _say(error)
            if client is None:
                time.sleep(0.1)  # out of files: let a worker end
            else:
                client.close()
        for file in files:
            os.close(file)
        return None

    def _watch(self, pid: int, client: socket.socket) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._workers[pidfd] = pid, client
        self._poll.register(pidfd, select.POLLIN)
        self._poll.register(client, select.POLLIN)
        _tell(client, b"\0")

    def _leave(self, client: socket.socket) -> None:
        """In a worker: let go of what is the server's."""
        os.setpgid(0, 0)  # Ray ends a worker by its group
        for pidfd, (_, other) in self._workers.items():
            os.close(pidfd)
            other.close()
        self._listener.close()
        client.close()

    def _check(self, request: dict[str, Any]) -> None:
        """Refuse what a fork of this process would do otherwise; the first request says what Ray is to read."""
        environ = request["environ"]
        if program_of(request["argv"]) is None:
            raise OSError(f"no program in {request['argv'][:1]}")
        of_ray = {name: environ.get(name) for name in _OF_RAY}
        if self._of_ray is None:
            self._of_ray = of_ray
            os.environ.update(environ)
            of_rays = any(module.split(".")[0] == "ray" for module in self._late)
            with ids.drawn_from_the_system() if of_rays else nullcontext():
                import_all(self._late)
            if "ray" in sys.modules and ids.forks_share():
                raise RuntimeError(
                    f"recipe.cpu.prefork: one of {self._late} draws ids that all workers would draw again"
                )
            _title_by(setproctitle)
            gc.freeze()  # the collector would touch, and so copy, every page
        fixed = self._born_with | self._of_ray
        if changed := {name: environ.get(name) for name, value in fixed.items() if environ.get(name) != value}:
            raise OSError(f"a worker must be born with {changed}")
        loaded = Path("/proc/self/maps").read_text()
        if missing := [name for name in environ.get("LD_PRELOAD", "").split(":") if name not in loaded]:
            raise OSError(
                f"a worker must be born with LD_PRELOAD={missing}"
            )  # vLLM's engine names what torch has loaded

    def _client_spoke(self, file: int, event: int) -> None:
        """A client says nothing but that it ends: half closed it hands a SIGTERM on, all closed it was killed."""
        self._poll.unregister(file)
        for pid, client in self._workers.values():
            if client.fileno() == file:
                os.kill(pid, signal.SIGKILL if event & select.POLLHUP else signal.SIGTERM)
                if not event & select.POLLHUP:
                    self._poll.register(file, 0)  # its death is still to be seen

    def _reap(self, pidfd: int) -> None:
        pid, client = self._workers.pop(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._poll.unregister(pidfd)
        os.close(pidfd)
        with suppress(KeyError):  # it may have died before its worker
            self._poll.unregister(client)
        _tell(client, code.to_bytes(2, "big", signed=True))
        client.close()


def receive(client: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Read a client's request and its open files; no request when anything of it is missing."""
    client.settimeout(_PATIENCE_S)
    header, received, _, _ = socket.recv_fds(client, 8, _MOST_FILES)
    files, size, body = list(received), int.from_bytes(header, "big"), b""
    try:
        while len(body) < size and (part := client.recv(size - len(body))):
            body += part
        request = json.loads(body)
    except (OSError, ValueError):
        return None, files
    client.settimeout(None)
    return (request if len(files) == len(request["files"]) else None), files


def _title_by(library: Any) -> None:
    """Let Ray name its workers with this library: its own copy no longer finds where titles go."""
    raylet: Any = sys.modules.get("ray._raylet")
    if raylet is not None:
        raylet.setproctitle, raylet.getproctitle = library.setproctitle, library.getproctitle


def _say(error: BaseException) -> None:
    with suppress(OSError):  # nobody may be reading
        print(f"prefork: {error}", file=sys.stderr, flush=True)


def _tell(client: socket.socket, message: bytes) -> None:
    with suppress(OSError):  # it may be gone
        client.send(message)


def import_all(modules: Sequence[str]) -> None:
    """Import modules by name."""
    for module in modules:
        importlib.import_module(module)


def main() -> None:
    """Import, then serve; in a worker, run what was asked for."""
    born_with = dict(os.environ)  # some imports change it
    driver, listener, early, late = sys.argv[1:]
    end_with_parent(int(driver))
    warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)  # numpy's idle threads stay behind
    setproctitle.getproctitle()  # it finds where titles go from the environment that the process was born with
    import_all(early.split(","))
    if "ray" in sys.modules:
        raise RuntimeError(f"recipe.cpu.prefork: one of {early} imports Ray, which must come with the first worker")
    become(Server(socket.socket(fileno=int(listener)), late.split(","), born_with).next_worker())


if __name__ == "__main__":
    main()
