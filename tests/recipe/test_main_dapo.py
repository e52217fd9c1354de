"""The entry point's errors: one line each, exit code 2, no traceback."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from recipe import main_dapo
from recipe.main_dapo import main, settle_paths
from tests.recipe.variants import variant

_ = variant()  # parses verl's files once for every composition of this process

ROOT = Path(__file__).parents[2]


@pytest.fixture
def call(monkeypatch, capsys):
    """Call the `main` of a module in this process; returns exit code, stdout and stderr."""

    def run(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["main", "cluster=cpu", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
        return SimpleNamespace(returncode=code, **capsys.readouterr()._asdict())

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trainer.total_trainning_steps=3"], "Did you mean trainer.total_training_steps?"),
        (["eksperiment=tiny"], "Did you mean experiment?"),
        (["experiment=tinny"], "Could not find 'experiment/tinny'"),
        (["trainer.nnodes="], "trainer.nnodes= must be a whole number"),
        (["data.train_batch_size=${nowhere}"], "nowhere"),
    ],
)
def test_misspelt_words_are_one_line(arguments, message, tmp_path, call):
    done = call(main, f"run_dir={tmp_path}/run", *arguments)
    assert done.returncode == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert not (tmp_path / "run").exists()


def test_all_problems_of_a_recipe_at_once(tmp_path, call):
    (tmp_path / "file").touch()
    done = call(main, f"run_dir={tmp_path}/file", "actor_rollout_ref.rollout.top_p=0.7")
    assert done.returncode == 2
    headline, *problems = done.err.splitlines()
    assert headline == "error: this run cannot work:"
    assert "Traceback" not in done.err
    for part in ("top_p=0.7 biases", "data.train_files=", "base_model is missing", "/file is a file"):
        assert sum(part in problem for problem in problems) == 1, part


def test_hydras_own_flags_work_and_fail_as_the_rest():
    command = [sys.executable, "-m", "recipe.main_dapo", "--cfg", "job", "--package", "trainer"]
    for word, code, text in (
        ("trainer.nnodes=7", 0, "nnodes: 7"),
        ("trainer.nodes=7", 2, "Did you mean trainer.nnodes?"),
    ):
        done = subprocess.run([*command, word], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == code
        assert text in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_paths_are_absolute_before_workers_see_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    paths = ["run_dir=r", "data.train_files=[t.parquet,hdfs://x/t.parquet]", "data.val_files=v.parquet"]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config = variant(*paths, "actor_rollout_ref.model.path=m", "trainer.resume_from_path=~/checkpoints/global_step_3")
    settle_paths(config)
    assert config.trainer.resume_from_path == f"{tmp_path}/home/checkpoints/global_step_3"
    assert config.run_dir == f"{tmp_path}/r"
    assert config.data.train_files == [f"{tmp_path}/t.parquet", "hdfs://x/t.parquet"]
    assert config.data.val_files == f"{tmp_path}/v.parquet"
    assert config.trainer.default_local_dir == f"{tmp_path}/r/checkpoints"
    assert config.actor_rollout_ref.model.path == f"{tmp_path}/m"


@pytest.mark.parametrize(
    ("overrides", "scratch", "expected"),
    [
        (["cluster=cpu"], True, "'/a b/python'"),  # Ray reads a command
        (["cluster=cpu", "ray_kwargs.ray_init.runtime_env.py_executable=/my/python"], True, "/my/python"),
        (["cluster=cpu", "ray_kwargs.ray_init.address=auto"], False, None),  # a cluster that runs already
        (["cluster=single_node"], True, None),
    ],
)
def test_workers_are_forks_on_a_cpu_unless_another_python_is_named(overrides, scratch, expected, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(main_dapo, "prefork", lambda folder, variables: nullcontext("/a b/python"))
    monkeypatch.setattr(main_dapo, "train_with_verl", seen.append)
    monkeypatch.setattr(main_dapo.os, "environ", {})
    config = variant(f"run_dir={tmp_path}", *overrides)
    main_dapo.run(config, SimpleNamespace(number=0), tmp_path if scratch else None)
    assert seen[0].ray_kwargs.ray_init.runtime_env.py_executable == expected
