"""Rules on the machine that a run starts on, its run folder and its environment."""

import os
from types import SimpleNamespace

import pytest

from recipe.preflight import (
    check_machine,
    machine,
)
from recipe.preflight.secrets import none_in_configuration
from tests.recipe.variants import variant


def test_too_small_a_machine_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: False)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=3e9))
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e8))
    found = check_machine(variant(f"run_dir={tmp_path}/new"))
    assert [problem.split(":")[0].split(" at ")[0] for problem in found] == [
        "memory",
        "disk space",
        "shared memory in /dev/shm",
    ]
    assert all("needed" in problem for problem in found)
    found = check_machine(variant(f"run_dir={tmp_path}/new", "preflight.cpu_memory_gb=2.5"))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("cluster", "visible", "message"),
    [
        ("cpu", True, "an accelerator is visible"),
        ("single_node", False, "no accelerator is visible"),
        ("cpu", False, None),
        ("single_node", True, None),
        ("multi_node", False, None),  # joins a cluster; its head node may have none
    ],
)
def test_recipe_and_device(monkeypatch, tmp_path, cluster, visible, message):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: visible)
    monkeypatch.setattr(machine, "_RAY_STARTED", tmp_path / "none")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    found = list(machine.device(variant(f"cluster={cluster}")))
    assert bool(found) == bool(message)
    assert not message or message in found[0]
    assert not message or f"cluster={cluster}" in found[0]


def test_gpu_recipe_in_a_job_of_a_cluster(monkeypatch):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert list(machine.device(variant("cluster=single_node"))) == []


@pytest.mark.parametrize(
    ("overrides", "installed", "visible", "refused"),
    [
        (["cluster=single_node"], [], True, True),
        (["cluster=single_node"], ["flash_attn"], True, False),
        (["cluster=single_node"], ["kernels"], True, False),  # transformers fetches flash attention from the Hub
        (["cluster=single_node", "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"], [], True, False),
        (["cluster=multi_node"], [], False, False),  # a head without accelerators says nothing of its nodes
        (["cluster=cpu"], [], True, False),
    ],
)
def test_flash_attention_is_installed_where_training_takes_it(monkeypatch, overrides, installed, visible, refused):
    monkeypatch.setattr(machine, "accelerator_visible", lambda: visible)
    monkeypatch.setattr(machine, "find_spec", lambda name: name in installed or None)
    found = [problem for problem in check_machine(variant(*overrides)) if "flash" in problem]
    assert bool(found) == refused
    if refused:
        assert "requirements-flash-attn.txt" in found[0]
        assert "attn_implementation=sdpa" in found[0]
        assert "ulysses_sequence_parallel_size=1" in found[0]


def test_run_dir_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    for run_dir in ("file", "file/below"):
        (found,) = machine.run_folder(variant(f"run_dir={tmp_path}/{run_dir}"))
        assert f"{tmp_path}/file is a file" in found


@pytest.mark.skipif(os.geteuid() != 0, reason="for others /proc is not writable, and that is said")
def test_run_dir_where_no_file_can_be():
    (found,) = machine.run_folder(variant("run_dir=/proc/run"))
    assert "/proc stores no files" in found
    assert not [problem for problem in machine.room(variant("run_dir=/proc/run")) if "/proc" in problem]


def test_run_dir_in_the_folder_of_a_ray_job(tmp_path):
    (found,) = machine.run_folder(variant(f"run_dir={tmp_path}/_ray_pkg_0123/outputs/run"))
    assert "the folder that Ray unpacked for this job, and removes" in found


def test_secret_of_the_environment_is_found_wherever_it_stands(recipe):
    environ = {"HF_TOKEN": "planted-4711", "HOME": "/home/me"}
    assert list(none_in_configuration(recipe(), environ)) == []
    found = list(none_in_configuration(recipe("trainer.project_name=x-planted-4711"), environ))
    assert any(problem.startswith("trainer.project_name holds the value of HF_TOKEN") for problem in found)
    assert not any("4711" in problem for problem in found)
