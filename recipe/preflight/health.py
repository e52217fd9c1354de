"""Rules about the section `health`."""

from collections.abc import Iterator

from omegaconf import DictConfig

from recipe.health import HealthSettings


def thresholds_are_numbers(config: DictConfig) -> Iterator[str]:
    """The thresholds can be read: no key is missing, unknown or no number."""
    try:
        HealthSettings.from_mapping(config.health)
    except ValueError as error:
        yield str(error)
