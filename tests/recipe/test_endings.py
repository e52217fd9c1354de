"""How a training that fails says so, through a real process's exit."""

import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from recipe.endings import described, full_disk, goes_on
from tests.recipe.test_checkpoints import make

ROOT = Path(__file__).parents[2]


def config(folder):
    trainer = {"default_local_dir": str(folder), "resume_mode": "auto", "nnodes": 1, "n_gpus_per_node": 1}
    return OmegaConf.create({"trainer": trainer})


CHILD = """
import sys, time
from omegaconf import OmegaConf
from recipe.endings import explained_ending
from recipe.errors import ConfigError
with explained_ending(OmegaConf.create({config})):
    {body}
"""


def ended(folder, body, number=None):
    code = CHILD.format(body=body, config=config(folder))
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=-1, stderr=-1, text=True)
    if number is not None:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
    return *child.communicate(timeout=60), child.returncode


@pytest.mark.parametrize(
    ("number", "said"),
    [(15, "error: terminated by a signal. "), (2, "error: interrupted. ")],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_signal_ends_with_where_to_go_on(tmp_path, number, said):
    folder = make(tmp_path, 7)
    _, err, status = ended(tmp_path, "print('ready', flush=True); time.sleep(60)", number)
    assert err.splitlines()[-1] == f"{said}The same command goes on from {folder}."
    assert status == 1


def test_an_error_keeps_its_traceback_above_the_last_line(tmp_path):
    _, err, status = ended(tmp_path, "raise RuntimeError('the engine\\nis dead.')")
    assert "Traceback" in err
    assert err.splitlines()[-1] == (
        "error: RuntimeError: the engine is dead. The same command starts anew: nothing is saved."
    )
    assert status == 1


def test_what_a_user_can_mend_and_a_good_end_pass(tmp_path):
    assert "ConfigError" in ended(tmp_path, "raise ConfigError('no', ['way'])")[1].splitlines()[-1]
    assert ended(tmp_path, "pass") == ("", "", 0)


def test_the_error_inside_a_task_is_the_one_that_is_shown():
    outer = RuntimeError("ray::run() " + "x" * 1000)
    outer.cause = ValueError("acc is missing")
    assert described(outer) == "ValueError: acc is missing"
    assert len(described(RuntimeError("x" * 1000))) < 350


def test_no_way_on_is_said_too(tmp_path):
    (make(tmp_path, 1) / "data.pt").unlink()
    assert "will not go on: " in goes_on(config(tmp_path))


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    assert full_disk(tmp_path / "new") == ""
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 2_000_000}))
    assert "the disk of" in full_disk(tmp_path / "new")
    assert "2 MB free" in full_disk(tmp_path / "new")
