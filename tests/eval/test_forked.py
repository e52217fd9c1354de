"""When the workers of an evaluation server are forks."""

from contextlib import nullcontext

import pytest

from eval import forked


@pytest.mark.parametrize(
    ("options", "for_cpu", "expected"),
    [
        ({}, True, "/folder/python"),
        ({"enforce-eager": "true"}, True, "/folder/python"),
        ({"enforce_eager": "false"}, True, None),  # compiling wants another environment
        ({}, False, None),
    ],
)
def test_forks_on_cpu_cores_unless_the_model_is_compiled(options, for_cpu, expected, monkeypatch, tmp_path):
    monkeypatch.setattr(forked, "built_for_cpu", lambda: for_cpu)
    monkeypatch.setattr(forked, "new_folder", lambda: tmp_path / "new")
    monkeypatch.setattr(forked, "prefork", lambda *_: nullcontext("/folder/python"))
    monkeypatch.setattr(forked.atexit, "register", lambda function: function)
    monkeypatch.setattr(forked.os, "environ", {})
    assert forked.worker_executable(options) == expected
    assert ("TORCHDYNAMO_DISABLE" in forked.os.environ) == bool(expected)
