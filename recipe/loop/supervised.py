"""How a command that runs phases ends: nothing is left behind, and the last line says what happened."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from recipe.compose import known_keys
from recipe.errors import user_errors
from recipe.loop.processes import PhaseFailed, adopt_orphans, end_descendants

GOES_ON = "The same command goes on from here."


@contextmanager
def supervised(hint: str = GOES_ON) -> Iterator[None]:
    """Run a command's body. Ctrl-C, SIGTERM, SIGHUP (unless nohup) or an error end every process that it started.

    Args:
        hint: what a person should do after a failed phase or an interruption.
    """
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: end every process in order
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    try:
        with user_errors(known_keys):
            yield
    except ValueError as error:
        sys.exit(f"error: {error}")
    except PhaseFailed as error:
        sys.exit(f"error: {error}\n{hint}")
    except KeyboardInterrupt:
        sys.exit(f"interrupted; nothing is left running. {hint}")
    finally:
        end_descendants()
