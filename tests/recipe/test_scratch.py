import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from recipe.scratch import new_folder, remove_folders, scratch_folder

ROOT = Path(__file__).parents[2]


def test_the_folder_is_every_childs_and_gone_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/tmp")
    with scratch_folder(tmp_path / "logs") as folder:
        assert os.environ["TMPDIR"] == str(folder) == tempfile.gettempdir()
        (folder / "socket").touch()
    assert not folder.exists()
    assert os.environ["TMPDIR"] == "/tmp" == tempfile.gettempdir()
    assert not (tmp_path / "logs").exists()


def fail_with_logs(folder):
    logs = folder / "ray" / "session_2026-01-01_00-00-00_000000_1" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.err").write_text("why\n")
    (folder / "ray" / "session_latest").symlink_to(logs.parent)
    raise RuntimeError(str(folder))


def test_rays_logs_are_kept_of_a_training_that_failed(tmp_path):
    with pytest.raises(RuntimeError, match="dapo-") as error, scratch_folder(tmp_path / "logs") as folder:
        fail_with_logs(folder)
    assert not Path(str(error.value)).exists()
    assert (tmp_path / "logs" / "raylet.err").read_text() == "why\n"


def test_a_path_that_is_too_long_for_sockets_is_not_taken(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 40)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = new_folder()
    assert folder.parent == Path("/tmp")
    assert list(deep.iterdir()) == []
    remove_folders(os.getpid() + 1)
    assert folder.exists()
    remove_folders(os.getpid())
    assert not folder.exists()


DRIVER = """
import subprocess, sys, time
from pathlib import Path
from recipe.scratch import scratch_folder
with scratch_folder(Path("{logs}")) as folder:
    logs = folder / "ray" / "session_2026-01-01_00-00-00_000000_1" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.err").write_text("why\\n")
    log = (logs / "agent.log").open("w")
    subprocess.Popen(["sleep", "{mark}"], start_new_session=True)
    # as Ray's agents are: no child of ours, nothing in the environment, but a log
    orphan = "import subprocess; subprocess.Popen(['sleep', '{mark}'], env=dict(), start_new_session=True)"
    subprocess.run([sys.executable, "-c", orphan], stdout=log, check=True)
    print(folder, flush=True)
    time.sleep(60)
"""


def sleepers(mark):
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", mark]]


def wait(until):
    deadline = time.monotonic() + 30
    while not until() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_killed_driver_leaves_nothing_but_rays_logs(tmp_path):
    mark, logs = f"7{os.getpid()}", tmp_path / "logs"
    code = DRIVER.format(mark=mark, logs=logs)
    driver = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    folder = Path(driver.stdout.readline().strip())
    wait(lambda: len(sleepers(mark)) == 2)
    assert len(sleepers(mark)) == 2
    driver.kill()
    driver.communicate()
    wait(lambda: not folder.exists())
    assert sleepers(mark) == []
    assert not folder.exists()
    assert (logs / "raylet.err").read_text() == "why\n"
