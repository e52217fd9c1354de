"""Worker processes by fork from one that has imported everything: on two cores, imports are most of a start.

verl's processes start one after the other, and each imports torch, transformers, vLLM and verl anew. Here they are
imported once, while the driver is at its own imports. Ray's documented `runtime_env.py_executable` then has each new
worker forked, and so has `multiprocessing` each process that a worker spawns, such as vLLM's engine. Pages are shared
until they are written, which saves memory too.

    prefork          starts the server, in the driver
    server.py        imports, and forks a worker for each client
    client.py        what Ray starts in place of python: asks for a worker, and stands for it while it lives
    worker.py        how a fork becomes what a python of its own would have been
    ids.py           Ray's random ids, which forks would share

Only for a cluster of this machine's own (`cluster=cpu`): an accelerator's runtime does not survive a fork. Where a fork
would not be the same as a plain python, or none is to be had, the client says so and becomes a plain python.
"""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recipe.cpu.prefork import client
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
    "ray",
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

_ROOT = Path(__file__).resolve().parents[3]


def suits(runtime_env: Mapping[str, Any]) -> bool:
    """Whether workers of this Ray runtime environment can be forks: it sets nothing but environment variables."""
    return not any(value for name, value in runtime_env.items() if name != "env_vars")


@contextmanager
def prefork(
    folder: Path, variables: Mapping[str, str], early: Sequence[str] = EARLY, late: Sequence[str] = LATE
) -> Iterator[str | None]:
    """Yield an executable that runs Python programs in forked workers, which end when the block or this process does.

    Args:
        folder: where executable and socket lie; no other user may enter it.
        variables: of the workers' environment, beside those of this process.
        early: modules to import at once.
        late: modules to import before the first fork.

    Yields:
        Its path; None where nothing in `folder` can be executed.
    """
    address, executable = folder / "prefork.socket", folder / "python"
    command = [sys.executable, "-I", "-S", client.__file__, os.fspath(executable), os.fspath(address)]
    executable.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    executable.chmod(0o700)
    if not os.access(executable, os.X_OK):
        yield None
        return
    os.environ.setdefault("RAY_worker_register_timeout_seconds", "300")  # 60 by default, for what imports less
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(address))
        listener.listen(64)
        arguments = [str(os.getpid()), str(listener.fileno()), ",".join(early), ",".join(late)]
        server = subprocess.Popen(
            [sys.executable, "-m", "recipe.cpu.prefork.server", *arguments],
            cwd=_ROOT,
            env={**os.environ, **variables},
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
        address.unlink(missing_ok=True)
        executable.unlink(missing_ok=True)
