"""A rule on secrets: none stands in the configuration, which verl prints, and we store with the run."""

import os
from collections.abc import Iterator, Mapping

from omegaconf import DictConfig

from recipe.resolved import flatten
from reward.secrets import names_secret, secrets_of


def none_in_configuration(config: DictConfig, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """No key that is named like a secret has a value, and no value is a secret of the environment."""
    known = secrets_of(os.environ if environ is None else environ)
    for key, value in flatten(config).items():
        text = str(value)
        named = [name for name, secret in known.items() if secret in text]
        if named or (isinstance(value, str) and value and names_secret(key)):
            yield (
                f"{key} holds {f'the value of {named[0]}' if named else 'a secret'}: the configuration is printed and "
                "stored with the run; leave it out, and set the environment variable (WANDB_API_KEY, HF_TOKEN, ...) "
                "or log in on every node (wandb login, hf auth login)"
            )
