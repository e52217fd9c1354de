"""Worker processes by fork from one that has imported everything: on two cores, imports are most of a start.

verl's processes start one after the other, and each imports torch, transformers, vLLM and verl anew: 4 to 10 seconds of
a core. Here they are imported once, while the driver is at its own imports. Ray's documented
`runtime_env.py_executable` then has each new worker forked (`prefork_client.py`), and so has `multiprocessing` each
process that a worker spawns, such as vLLM's engine. Pages are shared until they are written, which saves memory too.
Where no fork can be had, the client becomes a plain python.

Only for a cluster of this machine's own (`cluster=cpu`): an accelerator's runtime does not survive a fork.
"""

import ctypes
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import random
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from recipe.cpu import prefork_client
from recipe.scratch import end_ray

EARLY = (
    "torch",
    "transformers",
    "tensordict",
    "pandas",
    "datasets",
    "fastapi",
    "peft",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.worker.cpu_model_runner",
)
"""What the workers of a training import between them and what does not import Ray: before the first is asked for."""

LATE = (
    "recipe.cpu.group_rollout",
    "recipe.cpu.rollout",
    "recipe.trainer",
    "recipe.policy_loss",
    "reward.manager",
    "verl.trainer.main_ppo",
    "verl.workers.engine_workers",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.async_llm",
)
"""The rest: once the first worker is asked for, whose environment says what Ray reads when it is imported."""

_ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
_OF_RAY = ("RAY_JOB_ID", "RAY_RAYLET_PID")  # Ray reads them when it is imported
_MOST_FILES = 253  # in one message of a Unix socket


@contextmanager
def prefork(folder: Path, early: Sequence[str] = EARLY, late: Sequence[str] = LATE) -> Iterator[str]:
    """Yield an executable that runs Python programs in forked workers, which end when the block or this process does.

    Args:
        folder: where executable and socket lie; no other user may enter it.
        early: modules to import at once.
        late: modules to import before the first fork.
    """
    address, executable = folder / "prefork.socket", folder / "python"
    client = [sys.executable, "-I", "-S", prefork_client.__file__, os.fspath(executable), os.fspath(address)]
    executable.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
    executable.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(address))
        listener.listen(64)
        command = [sys.executable, "-m", "recipe.cpu.prefork", str(listener.fileno()), ",".join(early), ",".join(late)]
        server = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C is the driver's, which ends its workers in order
        )
    try:
        yield os.fspath(executable)
    finally:
        end_ray()  # its workers first, in order
        server.terminate()
        server.wait()
        address.unlink()
        executable.unlink()


class Server:
    """Forks a worker for each connection, tells its client how it ended, and ends a worker whose client is gone."""

    def __init__(self, listener: socket.socket, late: Sequence[str]):
        self._listener = listener
        self._late = list(late)
        self._of_ray: dict[str, str] | None = None
        self._workers: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process id, connection of its client

    def next_worker(self) -> dict:
        """Serve; returns in every new worker, with the request that it is to carry out."""
        while True:
            clients = {client: pid for pid, client in self._workers.values() if client.fileno() >= 0}
            ready, _, _ = select.select([self._listener, *self._workers, *clients], [], [])
            for each in ready:
                if each is self._listener:
                    if (request := self._fork()) is not None:
                        return request
                elif each in self._workers:
                    self._reap(each)
                elif each.fileno() >= 0:  # a client says nothing while it lives
                    os.kill(clients[each], signal.SIGTERM)
                    each.close()

    def _fork(self) -> dict | None:
        client, _ = self._listener.accept()
        try:
            request, files = receive(client)
        except (OSError, ValueError):
            client.close()
            return None
        if not self._ready(request["environ"]):
            for file in files:
                os.close(file)
            client.close()
            return None
        pid = os.fork()
        if pid:
            for file in files:
                os.close(file)
            self._workers[os.pidfd_open(pid)] = pid, client
            self._tell(client, 0)
            return None
        self._listener.close()
        for pidfd, (_, other) in self._workers.items():
            os.close(pidfd)
            other.close()
        client.close()
        take_over(files, request["files"])
        return request

    def _ready(self, environ: dict[str, str]) -> bool:
        """Import the rest in the first worker's name; whether a fork of this process is one for `environ`."""
        wanted = {name: environ[name] for name in _OF_RAY if name in environ}
        if self._of_ray is None:
            self._of_ray = wanted
            os.environ.update(environ)
            import_all(self._late)
            gc.freeze()  # the collector would touch, and so copy, every page
        return wanted == self._of_ray

    def _reap(self, pidfd: int) -> None:
        pid, client = self._workers.pop(pidfd)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._tell(client, code if code >= 0 else 128 - code)
        client.close()

    @staticmethod
    def _tell(client: socket.socket, byte: int) -> None:
        with suppress(OSError):  # it may be gone
            client.send(bytes([byte]))


def take_over(files: list[int], numbers: list[int]) -> None:
    """Give open files the numbers that they had in the client; another program's arguments may name them."""
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in files]  # out of the way of all numbers
    for file in files:
        os.close(file)
    for file, number in zip(aside, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def receive(client: socket.socket) -> tuple[dict, list[int]]:
    """Read a client's request and its open files."""
    header, files, _, _ = socket.recv_fds(client, 8, _MOST_FILES)
    size, body = int.from_bytes(header, "big"), b""
    while len(body) < size and (part := client.recv(size - len(body))):
        body += part
    return json.loads(body), list(files)


def become(request: dict) -> None:
    """Take over what a process of its own would have had from its start, then run its program."""
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if torch := sys.modules.get("torch"):  # its threads were counted when it was imported
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    multiprocessing.set_executable(request["executable"])
    program, *arguments = without_options(request["argv"])
    if program == "-c":
        code, *arguments = arguments
        sys.argv, sys.path[0] = [program, *arguments], ""
        main_module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), main_module.__dict__)
    else:
        sys.argv, sys.path[0] = [program, *arguments], os.path.dirname(program)
        runpy.run_path(program, run_name="__main__")


def without_options(argv: list[str]) -> list[str]:
    """Leave out the interpreter's options, such as `-B` and `-X dev`: a fork has those of its server."""
    while argv[0].startswith("-") and argv[0] != "-c":
        argv = argv[2 if argv[0] == "-X" else 1 :]
    return argv


def import_all(modules: Sequence[str]) -> None:
    """Import modules by name."""
    for module in modules:
        importlib.import_module(module)


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however that ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def main() -> None:
    """Import, then serve; in a worker, run what was asked for."""
    end_with_parent()
    import setproctitle  # a requirement of vLLM

    setproctitle.getproctitle()  # it finds where titles go from the environment that the process was born with
    number, early, late = sys.argv[1:]
    import_all(early.split(","))
    if "ray" in sys.modules:
        raise RuntimeError(f"recipe.cpu.prefork: one of {early} imports Ray, which must come with the first worker")
    request = Server(socket.socket(fileno=int(number)), late.split(",")).next_worker()
    end_with_parent()
    become(request)


if __name__ == "__main__":
    main()
