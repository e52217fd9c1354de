import os
import tempfile
from pathlib import Path

import pytest

from recipe.scratch import new_folder, remove_folders, scratch_folder


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
