"""A temporary folder for every process of a training on this machine, gone when it ends.

Ray leaves its session there, and each vLLM engine a socket: left to `/tmp`, they would pile up start by start.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 38
"""Characters of the folder's path: Ray's sockets lie 68 characters deeper, and a socket's path may have 107."""
_ANYWHERE = Path("/tmp")


@contextmanager
def scratch_folder(logs: Path) -> Iterator[Path]:
    """Make the folder `TMPDIR` of this process and of those it starts; what Ray started here ends with the block.

    Args:
        logs: where Ray's own logs are copied to when the block raises; not made otherwise.
    """
    before = os.environ.get("TMPDIR")
    folder = new_folder()
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    try:
        yield folder
    except BaseException:
        end_ray()
        for session in sorted(folder.glob("ray/session_2*/logs")):
            with contextlib.suppress(OSError, shutil.Error):  # a full disk must not hide the error
                shutil.copytree(session, logs, symlinks=True, dirs_exist_ok=True)
        raise
    finally:
        end_ray()
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


def new_folder() -> Path:
    """A new temporary folder where `TMPDIR` says, or below /tmp where that path is too long for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix=_prefix(os.getpid())))
    if len(str(folder)) <= _LONGEST:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=_prefix(os.getpid()), dir=_ANYWHERE))


def remove_folders(pid: int) -> None:
    """Remove what a killed process with that id could not."""
    for parent in {Path(tempfile.gettempdir()), _ANYWHERE}:
        for folder in parent.glob(_prefix(pid) + "*"):
            shutil.rmtree(folder, ignore_errors=True)


def _prefix(pid: int) -> str:
    return f"dapo-{pid}-"


def end_ray() -> None:
    """Let Ray end its processes now: it would still print what they say after our line."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
