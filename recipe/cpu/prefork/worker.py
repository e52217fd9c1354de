"""How a fork of the server becomes what a python of its own would have been from its start."""

import ctypes
import fcntl
import multiprocessing
import os
import random
import resource
import runpy
import signal
import sys
import types
from typing import Any

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however that ends; it may have ended already."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(1)


def program_of(argv: list[str]) -> list[str] | None:
    """The arguments without the interpreter's options, such as `-B` and `-X dev`: a fork has those of its server.

    None when they name neither a file nor code.
    """
    while argv and argv[0].startswith("-") and argv[0] not in ("-c", "-m", "-"):
        argv = argv[2 if argv[0] == "-X" else 1 :]
    return argv if argv and argv[0] not in ("-m", "-") else None


def take_over(files: list[int], numbers: list[int], limit: tuple[int, int]) -> None:
    """Give open files the numbers that they had in the client, under its limit; a program's arguments may name them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    aside = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in files]  # out of the way of all numbers
    for file in files:
        os.close(file)
    for file, number in zip(aside, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def become(request: dict[str, Any]) -> None:
    """Take the surroundings of the client and run its program."""
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) and (threads := os.environ.get("OMP_NUM_THREADS")):
        torch.set_num_threads(int(threads.split(",")[0]))  # they were counted when it was imported
    multiprocessing.set_executable(request["executable"])
    program, *arguments = program_of(request["argv"]) or []
    if program == "-c":
        code, *arguments = arguments
        sys.argv, sys.path[0] = [program, *arguments], ""
        main_module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(code, main_module.__dict__)
    else:
        sys.argv, sys.path[0] = [program, *arguments], os.path.dirname(program)
        runpy.run_path(program, run_name="__main__")
