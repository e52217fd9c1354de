"""The last line of a training that did not reach its end: what happened, and where the same command goes on."""

import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from recipe.checkpoints import resume_folder
from recipe.errors import USER_ERRORS
from recipe.preflight.storage import existing
from recipe.scratch import end_ray

_LONGEST = 300  # characters of an error in the last line; the traceback above it has all
_FULL_BYTES = 50_000_000


@contextmanager
def explained_ending(config: DictConfig) -> Iterator[None]:
    """End the process with status 1 and one clear last line when the block is interrupted, terminated or fails.

    A traceback comes before the line; what a user can mend (`USER_ERRORS`) passes through.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # until Ray has its own handler, which exits as well
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
    try:
        yield
    except USER_ERRORS:
        raise
    except KeyboardInterrupt:
        said = "interrupted"
    except SystemExit as end:
        if not end.code:
            raise
        said = "terminated by a signal"
    except Exception as error:
        traceback.print_exc()
        said = described(error)
    else:
        return
    end_ray()
    sys.exit(f"error: {said}{full_disk(Path(config.trainer.default_local_dir))}. {goes_on(config)}")


def described(error: BaseException) -> str:
    """An error in one line; of a Ray task that failed, the error inside."""
    while isinstance(cause := getattr(error, "cause", None), BaseException):
        error = cause
    text = " ".join(str(error).split())
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    return f"{type(error).__name__}: {shown}".rstrip(".: ")


def full_disk(folder: Path) -> str:
    """What to add when hardly anything more fits on the disk of the checkpoints, else nothing."""
    free = shutil.disk_usage(existing(folder)).free
    return f"; the disk of {folder} is full, {free / 1e6:.0f} MB free" if free < _FULL_BYTES else ""


def goes_on(config: DictConfig) -> str:
    """Where the same command will go on."""
    try:
        folder = resume_folder(config)
    except ValueError as error:
        return f"The same command will not go on: {error}"
    return f"The same command goes on from {folder}." if folder else "The same command starts anew: nothing is saved."
