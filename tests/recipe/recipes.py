"""Composed recipes for tests: each combination of words is composed once, each file and interpolation parsed once."""

import functools
import pickle

import omegaconf.base
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins
from omegaconf import DictConfig

from recipe.compose import compose
from recipe.resolved import flatten, overrides, scripts

NAMES = sorted(scripts())


@functools.cache
def words(name: str) -> tuple[str, ...]:
    """What the launch script of that name hands to Hydra."""
    return tuple(overrides(scripts()[name]))


@functools.cache
def _composed(*overrides: str) -> DictConfig:
    _parse_files_once()
    return compose(list(overrides))


@functools.cache
def _pickled(*overrides: str) -> bytes:
    return pickle.dumps(_composed(*overrides))


def composed(*overrides: str) -> DictConfig:
    """A copy, for the caller to change."""
    return pickle.loads(_pickled(*overrides))  # a sixth of what `copy.deepcopy` takes


@functools.cache
def flat(*overrides: str) -> dict:
    """Resolved values by dotted key."""
    return flatten(_composed(*overrides))


@functools.cache
def _parse_files_once() -> None:
    """Three quarters of a composition go into parsing verl's files again and again."""
    Plugins.instance()
    source = SourcesRegistry.instance().resolve("file")
    original, parsed = source.load_config, {}

    def load_config(self, config_path):
        key = (self.path, config_path)
        if key not in parsed:
            parsed[key] = pickle.dumps(original(self, config_path))
        return pickle.loads(parsed[key])

    source.load_config = load_config
    omegaconf.base.parse = functools.cache(omegaconf.base.parse)  # of an interpolation; its tree is only read
