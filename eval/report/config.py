"""Resolved configurations: flat, without secrets, and where those of several runs differ. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from reward.secrets import names_secret

HIDDEN = "(hidden)"
MISSING = "(absent)"


def without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration with the values of keys that name a secret hidden."""
    return {k: HIDDEN if v is not None and names_secret(k) else v for k, v in config.items()}


def differences(configs: Sequence[Mapping[str, Any]], folders: Sequence[str]) -> dict[str, list[str]]:
    """Keys whose values are not the same in all configurations, with the value in each as text.

    A run's own folder, which stands in many paths, counts as equal; so do the names that only say which run it is.
    """
    texts = [_texts(config, folder) for config, folder in zip(configs, folders, strict=True)]
    keys = sorted(set().union(*texts)) if texts else []
    rows = {key: [text.get(key, MISSING) for text in texts] for key in keys}
    return {key: values for key, values in rows.items() if len(set(values)) > 1}


def _texts(config: Mapping[str, Any], folder: str) -> dict[str, str]:
    run_dir, name = str(config.get("run_dir") or folder), str(config.get("trainer.experiment_name", ""))
    found = {}
    for key, value in config.items():
        if key in ("run_dir", "trainer.experiment_name"):
            continue
        text = "null" if value is None else str(value)
        for part in (run_dir, name):
            text = text.replace(part, "<run>") if part else text
        found[key] = text
    return found
