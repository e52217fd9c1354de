"""Where the metrics of a run go, through verl's own backends (`trainer.logger`): what each needs. Pure; no verl import.

The `file` backend is always on, because the report and the loop read it. Nothing ever asks for a key: without one wandb
writes to the run's folder, and `wandb sync` uploads that later.
"""

import importlib.util
import logging
import netrc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlparse

from omegaconf import DictConfig, open_dict

logger = logging.getLogger(__name__)

# verl.utils.tracking.Tracking.supported_backend, and the package that each imports
PACKAGES = {
    "console": None,
    "file": None,
    "wandb": "wandb",
    "tensorboard": "tensorboard",
    "trackio": "trackio",
    "mlflow": "mlflow",
    "swanlab": "swanlab",
    "clearml": "clearml",
    "rl_insight": "rl_insight",
    "vemlp_wandb": "volcengine_ml_platform",
}


def backends(config: DictConfig) -> list[str]:
    """The names in `trainer.logger`, which may be one name or a list."""
    value = config.trainer.logger
    return [value] if isinstance(value, str) else list(value)


def known_backends(config: DictConfig) -> Iterator[str]:
    """A preflight rule: verl knows every backend in `trainer.logger`."""
    for name in backends(config):
        if name not in PACKAGES:
            yield f"trainer.logger={name} is unknown to verl: use some of {', '.join(PACKAGES)}"


def installed_backends(config: DictConfig) -> Iterator[str]:
    """A preflight rule: the packages of the backends are installed on this machine."""
    for name in backends(config):
        package = PACKAGES.get(name)
        if package is not None and importlib.util.find_spec(package) is None:
            yield f"trainer.logger={name} needs the package {package}: pip install it, or leave {name} out"


def always_to_file(config: DictConfig) -> None:
    """Add the `file` backend where the configuration leaves it out."""
    names = backends(config)
    if "file" not in names:
        logger.warning("trainer.logger=%s: adding file, which the report reads", names)
        with open_dict(config):
            config.trainer.logger = [*names, "file"]


def tracking_environment(config: DictConfig, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment variables of the chosen backends; what `environ` (default: the process's) has stays."""
    environ = os.environ if environ is None else environ
    run_dir, names, wanted = Path(config.run_dir), backends(config), {}
    if "tensorboard" in names:
        wanted["TENSORBOARD_DIR"] = str(run_dir / "tensorboard")
    if "trackio" in names:
        wanted["TRACKIO_DIR"] = str(run_dir / "trackio")
    if "wandb" in names:
        wanted["WANDB_DIR"] = str(run_dir)  # wandb makes a folder `wandb` in it
        if "WANDB_MODE" not in environ and not has_wandb_key(environ):
            wanted["WANDB_MODE"] = "offline"
            logger.warning("wandb: no key found, writing to %s/wandb; upload with: wandb sync", run_dir)
    return {key: value for key, value in wanted.items() if key not in environ}


def has_wandb_key(environ: Mapping[str, str]) -> bool:
    """Whether wandb would find a key: in WANDB_API_KEY, or in the netrc file under its host."""
    if environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(environ.get("NETRC", Path(environ.get("HOME", "~")).expanduser() / ".netrc"))
    try:
        return netrc.netrc(str(path)).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
