"""Which backends a run logs to: verl's own names, a file always, and no key ever asked for."""

import ast

import pytest
from omegaconf import OmegaConf

from recipe.compose import verl_config_dir
from recipe.tracking import (
    PACKAGES,
    always_to_file,
    backends,
    installed_backends,
    known_backends,
    tracking_environment,
)


def config(*loggers):
    return OmegaConf.create({"trainer": {"logger": list(loggers)}, "run_dir": "/runs/r"})


def test_names_are_those_of_verl():
    source = (verl_config_dir().parents[1] / "utils" / "tracking.py").read_text()  # importing it takes seconds
    assigned = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)]
    (value,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "supported_backend"]
    assert set(PACKAGES) == set(ast.literal_eval(value))


@pytest.mark.parametrize("names", ["wandb", ["console"], ["file"]])
def test_file_is_always_on(names):
    composed = OmegaConf.create({"trainer": {"logger": names}})
    OmegaConf.set_struct(composed, True)
    always_to_file(composed)
    assert backends(composed).count("file") == 1


def test_shipped_backends_are_installed():
    shipped = config("console", "file", "wandb", "tensorboard", "trackio")
    assert [*known_backends(shipped), *installed_backends(shipped)] == []


def test_unknown_and_missing_backends_are_named():
    named = config("file", "wandbb", "swanlab")
    (unknown,) = known_backends(named)
    assert unknown.startswith("trainer.logger=wandbb is unknown to verl: use some of console, file")
    assert list(installed_backends(named)) == [
        "trainer.logger=swanlab needs the package swanlab: pip install it, or leave swanlab out"
    ]


def test_wandb_without_a_key_is_offline(tmp_path):
    found = tracking_environment(config("file", "wandb"), {"HOME": str(tmp_path)})
    assert found == {"WANDB_DIR": "/runs/r", "WANDB_MODE": "offline"}


@pytest.mark.parametrize("netrc", [None, "machine api.wandb.ai login user password x\n"])
def test_wandb_with_a_key_is_left_online(tmp_path, netrc):
    environ = {"HOME": str(tmp_path)}
    if netrc is None:
        environ["WANDB_API_KEY"] = "x"
    else:
        (tmp_path / ".netrc").write_text(netrc)
        (tmp_path / ".netrc").chmod(0o600)
    assert tracking_environment(config("file", "wandb"), environ) == {"WANDB_DIR": "/runs/r"}


def test_key_of_another_host_is_no_key(tmp_path):
    (tmp_path / ".netrc").write_text("machine example.org login user password x\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert tracking_environment(config("wandb"), {"HOME": str(tmp_path)})["WANDB_MODE"] == "offline"


def test_what_the_user_set_stays(tmp_path):
    environ = {"HOME": str(tmp_path), "WANDB_MODE": "online", "WANDB_DIR": "/w", "TENSORBOARD_DIR": "/t"}
    assert tracking_environment(config("wandb", "tensorboard"), environ) == {}


@pytest.mark.parametrize(("backend", "variable"), [("tensorboard", "TENSORBOARD_DIR"), ("trackio", "TRACKIO_DIR")])
def test_local_backends_write_into_the_run(backend, variable):
    assert tracking_environment(config(backend), {}) == {variable: f"/runs/r/{backend}"}
