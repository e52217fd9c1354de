"""Processes that may end while they are looked at."""

import psutil


def runs(process: psutil.Process) -> bool:
    """Whether a process still runs: a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
