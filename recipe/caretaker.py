"""Clears up after a training's driver that was killed: Ray's agents alone would be there for another minute.

    python -m recipe.caretaker FOLDER LOGS

waits until its input ends, which it does with the driver, and then ends every process that works in `FOLDER`, keeps
Ray's logs in `LOGS`, and removes the folder and the shared-memory segments. `recipe.scratch` starts it.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil

from recipe.leftovers import end_all, remove_segments, runs, segments
from recipe.scratch import keep_logs, remove_folder

_GRACE_S = 3.0  # nothing is saved any more without the driver


class Family:
    """Every process whose `TMPDIR` is a folder or that writes to a file there, as a log, and its descendants.

    One alone would not do: some of Ray's processes overwrite their environment, and the raylet, their parent, dies
    first. Who only reads is a person who looks at a log.
    """

    def __init__(self, folder: Path):
        self._folder = str(folder)
        self._seen: set[psutil.Process] = set()

    def alive(self) -> list[psutil.Process]:
        """Those that run now, this process left out."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and self._belongs(process):
                    self._seen |= {process, *process.children(recursive=True)}
        return [process for process in self._seen if runs(process)]

    def _belongs(self, process: psutil.Process) -> bool:
        if process.environ().get("TMPDIR") == self._folder:
            return True
        return any(f.path.startswith(f"{self._folder}/") and f.mode != "r" for f in process.open_files())


def main() -> None:
    """Command line."""
    folder, logs = map(Path, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver's business
    before = segments()
    sys.stdin.buffer.read()
    end_all(Family(folder).alive, grace_s=_GRACE_S)
    keep_logs(folder, logs)
    remove_segments(before)
    remove_folder(folder)


if __name__ == "__main__":
    main()
