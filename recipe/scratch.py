"""A temporary folder for every process of a training on this machine, gone when it ends.

Ray leaves its session there, and each vLLM engine a socket: left to `/tmp`, they would pile up start by start.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 38
"""Characters of the folder's path: Ray's sockets lie 68 characters deeper, and a socket's path may have 107."""
_ANYWHERE = Path("/tmp")
_ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def scratch_folder(logs: Path) -> Iterator[Path]:
    """Make the folder `TMPDIR` of this process and of those it starts; what Ray started here ends with the block.

    Where this process is killed, `recipe.caretaker` does the same for it.

    Args:
        logs: where Ray's own logs are copied to when the block raises; not made otherwise.
    """
    before = os.environ.get("TMPDIR")
    folder = new_folder()
    caretaker = subprocess.Popen(
        [sys.executable, "-m", "recipe.caretaker", folder, logs],
        cwd=_ROOT,
        stdin=subprocess.PIPE,  # which ends with this process, however that ends
        start_new_session=True,
    )
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    try:
        yield folder
    except BaseException:
        end_ray()
        keep_logs(folder, logs)
        raise
    finally:
        end_ray()
        remove_folder(folder)
        caretaker.terminate()
        caretaker.communicate()
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


def keep_logs(folder: Path, logs: Path) -> None:
    """Copy what Ray logged under `folder` to `logs`, if there is anything."""
    for session in sorted(folder.glob("ray/session_2*/logs")):
        with contextlib.suppress(OSError, shutil.Error):  # a full disk must not hide the error
            shutil.copytree(session, logs, symlinks=True, dirs_exist_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a scratch folder, as far as that goes."""
    shutil.rmtree(folder, ignore_errors=True)


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
            remove_folder(folder)


def _prefix(pid: int) -> str:
    return f"dapo-{pid}-"


def end_ray() -> None:
    """Let Ray end its processes now: it would still print what they say after our line."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
