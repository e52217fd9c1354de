"""What is checked before a job is submitted, and what the job takes along."""

import json
import sys

import pytest

from recipe.errors import ConfigError
from recipe.provenance import commit
from recipe.ray_cluster import main, missing, runtime_env


@pytest.mark.parametrize(
    ("gpus", "enough"),
    [
        ([8.0] * 16, True),
        ([8.0] * 17, True),
        ([8.0] * 15, False),
        ([8.0] * 15 + [4.0], False),
        ([128.0], False),
        ([], False),
    ],
)
def test_every_node_must_have_its_gpus(gpus, enough):
    problem = missing(gpus, nnodes=16, n_gpus_per_node=8)
    assert (problem is None) == enough
    if problem:
        assert f"{len(gpus)} node(s)" in problem
        assert "trainer.nnodes=16" in problem


def test_a_job_takes_the_code_and_what_is_named(tmp_path):
    found = runtime_env(tmp_path, {"DATA_DIR": "/d"})
    assert found["working_dir"] == str(tmp_path)
    assert found["env_vars"] == {"DATA_DIR": "/d"}
    assert {".git", "data", "outputs", "checkpoints"} <= set(found["excludes"])


def test_a_job_knows_the_commit_that_its_folder_does_not(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DATA_DIR", "/d")
    monkeypatch.setattr(sys, "argv", ["ray_cluster", "runtime_env", str(tmp_path), "DATA_DIR", "NOT_SET"])
    main()
    found = json.loads(capsys.readouterr().out)["env_vars"]
    assert found.items() >= {"DATA_DIR": "/d", "RECIPE_COMMIT": commit()}.items()
    assert "NOT_SET" not in found


def test_a_variable_that_verl_repeats_is_no_conflict(tmp_path, monkeypatch, capsys):
    """Ray merges the job's environment with that of the driver's ray.init, and refuses a name that both have."""
    from ray.runtime_env.runtime_env import _merge_runtime_env

    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    monkeypatch.setattr(sys, "argv", ["ray_cluster", "runtime_env", str(tmp_path), "NCCL_ALGO", "NCCL_SOCKET_IFNAME"])
    main()
    job = json.loads(capsys.readouterr().out)
    drivers = {"env_vars": {"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"}}  # as verl.trainer.constants_ppo makes it
    asked = job["env_vars"].get("RAY_OVERRIDE_JOB_RUNTIME_ENV") == "1"  # what ray.init looks at
    merged = _merge_runtime_env(job, drivers, override=asked)
    assert merged is not None
    wanted = {"NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "WARN"}
    assert merged["env_vars"].items() >= wanted.items()
    assert merged["working_dir"] == str(tmp_path)


def test_a_job_takes_no_secret_along(tmp_path, monkeypatch, capsys):
    names = ("WANDB_API_KEY", "HF_TOKEN", "VLLM_API_KEY")
    for name in names:
        monkeypatch.setenv(name, "planted-4711")
    monkeypatch.setattr(sys, "argv", ["ray_cluster", "runtime_env", str(tmp_path), *names])
    main()
    said = capsys.readouterr()
    assert "planted-4711" not in said.out + said.err
    assert all(name in said.err for name in names)


def test_a_large_file_is_named_before_the_upload(tmp_path):
    with (tmp_path / "weights.bin").open("wb") as f:
        f.truncate(150_000_000)
    with pytest.raises(ConfigError, match=r"weights.bin \(150 MB\)"):
        runtime_env(tmp_path, {})


@pytest.mark.parametrize("folder", [".git", "data", "outputs/run/checkpoints", ".venv-gpu"])
def test_large_files_in_excluded_folders_do_not_count(tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    with (tmp_path / folder / "weights.bin").open("wb") as f:
        f.truncate(150_000_000)
    assert runtime_env(tmp_path, {})["working_dir"] == str(tmp_path)
