"""What happens to the files, the disk and the clock of a run."""

import contextlib
import os
import random
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

MOUNT_MB = 128
_LEFT_BYTES = 4_000_000  # less than a checkpoint of the tiny model
_REFILL_S = 0.02
FILLER = "filler"
CLOCK = "FAULTS_CLOCK"
"""Environment variable with the path of a file that holds the clock's error in seconds."""

_SHIFTED_CLOCK = f'''
"""Shifts the clock that Python code reads (time.time, time.time_ns) by the number in the file that {CLOCK} names."""
import os, time

_true, _steady, _path = time.time, time.monotonic, os.environ.get("{CLOCK}")
_last = [-1e9, 0.0]


def _error():
    now = _steady()
    if now - _last[0] > 0.2:
        try:
            with open(_path) as f:
                _last[:] = now, float(f.read() or 0)
            if _last[1]:
                open(f"{{_path}}.{{os.getpid()}}", "w").close()
        except (OSError, ValueError):
            _last[0] = now
    return _last[1]


if _path:
    time.time = lambda: _true() + _error()
    time.time_ns = lambda: int(time.time() * 1e9)
'''


def clock_environment(folder: Path) -> dict[str, str]:
    """Environment of a start whose Python processes read the wall clock of `set_clock`.

    Kernel time stamps, C++ (Ray's daemons) and `datetime.now` keep the true time: a clock that really jumps needs the
    machine's own to be set.
    """
    shutil.rmtree(folder / "clock", ignore_errors=True)
    (folder / "clock").mkdir(parents=True)
    (folder / "clock" / "sitecustomize.py").write_text(_SHIFTED_CLOCK)
    set_clock(folder, 0)
    path = os.pathsep.join(filter(None, [str(folder / "clock"), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, CLOCK: str(folder / "clock" / "error")}


def set_clock(folder: Path, seconds: float) -> None:
    """Let the clock be wrong by so many seconds from now on."""
    partial = folder / "clock" / "error.partial"
    partial.write_text(str(seconds))
    partial.replace(folder / "clock" / "error")


def saw_clock(folder: Path) -> set[int]:
    """Process ids of those that have read a wrong clock since `clock_environment`."""
    return {int(path.suffix[1:]) for path in (folder / "clock").glob("error.*") if path.suffix[1:].isdigit()}


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Let `folder` be a small disk (tmpfs) inside the block, its content on it; no other where this user may not mount.

    Outside the block everything lies on the disk below, so that nothing is lost with the mount.
    """
    put_back(folder)
    copy = _copy(folder)
    command = ["mount", "-t", "tmpfs", "-o", f"size={MOUNT_MB}m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode == 0:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
    shutil.rmtree(copy)
    try:
        yield
    finally:
        put_back(folder)


def put_back(folder: Path) -> None:
    """Take the small disk away and leave its content in `folder`, also after a campaign that was killed over it."""
    folder.mkdir(parents=True, exist_ok=True)
    content = _aside(folder, "content")
    if os.path.ismount(folder):
        copy = _copy(folder)
        shutil.rmtree(content, ignore_errors=True)
        copy.rename(content)
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    if content.is_dir():
        shutil.rmtree(folder)
        content.rename(folder)
    shutil.rmtree(_aside(folder, "copy"), ignore_errors=True)


def _copy(folder: Path) -> Path:
    copy = _aside(folder, "copy")
    shutil.rmtree(copy, ignore_errors=True)
    return shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(FILLER))


def _aside(folder: Path, name: str) -> Path:
    return folder.with_name(f"{folder.name}.{name}")


@contextlib.contextmanager
def full_disk(folder: Path, writer: psutil.Process) -> Iterator[str]:
    """Leave no room for a checkpoint inside the block, whatever is deleted meanwhile, and say how it was done.

    Where `folder` is a disk of its own it is filled; elsewhere files of the `writer` may not grow beyond a size
    (RLIMIT_FSIZE), which its writes notice in the same place.
    """
    if not os.path.ismount(folder):
        writer.rlimit(resource.RLIMIT_FSIZE, (_LEFT_BYTES, _LEFT_BYTES))
        yield "RLIMIT_FSIZE of the trainer's rank"
        return
    over = threading.Event()
    filler = folder / FILLER

    def keep_full() -> None:
        while not over.wait(_REFILL_S):
            _fill(filler)

    _fill(filler)
    thread = threading.Thread(target=keep_full, daemon=True)
    thread.start()
    try:
        yield "tmpfs filled"
    finally:
        over.set()
        thread.join()
        filler.unlink()


def _fill(filler: Path) -> None:
    """Let the filler grow until the disk has no more than `_LEFT_BYTES`; that others write faster is no error.

    A checkpoint that was saved just before is rotated out just after: only a disk that is filled again stays full.
    """
    disk = os.statvfs(filler.parent)
    if (more := disk.f_bavail * disk.f_frsize - _LEFT_BYTES) > 0:
        with filler.open("ab") as f, contextlib.suppress(OSError):
            os.posix_fallocate(f.fileno(), f.tell(), more)


def truncate_checkpoint(folder: Path, rng: random.Random) -> str:
    """Cut one file of a checkpoint short; say which."""
    path = rng.choice(sorted([*folder.rglob("*.pt"), *folder.glob("*.json")]))
    size = path.stat().st_size
    os.truncate(path, rng.randrange(1, size - 1))  # the last byte of a JSON file is a newline
    return f"{path.relative_to(folder.parent)} cut from {size} to {path.stat().st_size} bytes"


@contextlib.contextmanager
def corrupted_page(path: Path, rng: random.Random) -> Iterator[str]:
    """Flip the bits of one byte in the data pages of a parquet file, and put it right afterwards."""
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little")
    at = rng.randrange(4, len(content) - 8 - footer)
    shutil.copy2(path, whole := _aside(path, "whole.partial"))
    whole.replace(_aside(path, "whole"))
    path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
    try:
        yield f"byte {at} of {path.name}"
    finally:
        put_right(path)


def put_right(path: Path) -> None:
    """Give a corrupted file its content again, also after a campaign that was killed over it."""
    if (whole := _aside(path, "whole")).is_file():
        whole.replace(path)


def remove_rollout(run_dir: Path, rng: random.Random) -> str:
    """Delete verl's dump of one step's rollouts and the examples of all steps, which a report would rather read."""
    path = rng.choice(sorted((run_dir / "rollouts").glob("*.jsonl")))
    path.unlink()
    shutil.rmtree(run_dir / "examples", ignore_errors=True)
    return f"{path.relative_to(run_dir)} and examples/"
