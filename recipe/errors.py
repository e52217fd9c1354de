"""Errors that a user can mend, and how a command line shows them: one clear line, exit code 2."""

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

EXIT_CODE = 2


class ConfigError(ValueError):
    """A recipe, its inputs or this machine cannot work. The message holds every problem; several have a line each."""

    def __init__(self, headline: str, problems: list[str]):
        self.problems = problems
        super().__init__((" " if len(problems) == 1 else "\n  ").join([headline, *problems]))


USER_ERRORS = (ConfigError, HydraException, OmegaConfBaseException)


def one_line(error: Exception, known_keys: Callable[[], list[str]] | None = None) -> str:
    """Return what to show of an error: our own text as it is, Hydra's and OmegaConf's in one line.

    Args:
        error: one of `USER_ERRORS`.
        known_keys: gives every key of the configuration; called only to suggest one for a key that does not exist.
    """
    if isinstance(error, ConfigError):
        return str(error)
    text = " ".join(str(error).split())
    if (cause := error.__cause__) is not None and isinstance(cause, (HydraException, OmegaConfBaseException)):
        detail = " ".join(str(cause).split()).split(" full_key:")[0]
        text = text if detail in text else f"{text} {detail}"
    text = text.split(" Config search path:")[0]
    missing = re.search(r"Could not override '([^']+)'", text)
    if missing and known_keys:
        close = difflib.get_close_matches(missing[1], known_keys(), n=1)
        text += f" Did you mean {close[0]}?" if close else ""
    return text


def fail(error: Exception, known_keys: Callable[[], list[str]] | None = None) -> NoReturn:
    """End the process as a user's mistake should: the message on stderr, exit code 2, no traceback."""
    print(f"error: {one_line(error, known_keys)}", file=sys.stderr)
    raise SystemExit(EXIT_CODE)


@contextmanager
def user_errors(known_keys: Callable[[], list[str]] | None = None) -> Iterator[None]:
    """Turn `USER_ERRORS` of the block into `fail`; everything else keeps its traceback."""
    try:
        yield
    except USER_ERRORS as error:
        fail(error, known_keys)
