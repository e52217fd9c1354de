"""Which names are those of secrets, so that no result file, log or job description holds their values. Pure."""

import re
from collections.abc import Mapping

_NAME = re.compile(
    r"(^|[._])((api_?key|access_?key|secret(_key)?|password|passwd|(hf|hub|auth|access|wandb)_?token)s?|token)$",
    re.IGNORECASE,
)
_SHORTEST = 8  # characters; a shorter value would be found in harmless text


def names_secret(name: str) -> bool:
    """Whether a key of a configuration, dotted or not, an option or an environment variable is named like a secret.

    A dash counts as an underscore, and a plural as its singular, save that of a mere `token`: `max_tokens` is a number.
    """
    return _NAME.search(name.replace("-", "_")) is not None


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that are named like secrets and long enough to be some."""
    return {name: value for name, value in environ.items() if names_secret(name) and len(value) >= _SHORTEST}
