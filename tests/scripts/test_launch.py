"""The launch scripts: short, hardly alike, and what they would start is what they print."""

import itertools
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from recipe.resolved import scripts

REPOSITORY = Path(__file__).resolve().parents[2]
ALL = sorted([*(REPOSITORY / "scripts").rglob("*.sh"), *(REPOSITORY / "scripts").rglob("*.sbatch")])
TRIVIAL = {"", "}", "fi", "done", "esac", "exit", "else", "do", "then"}


def launch(script, *arguments, cwd=None, **environment):
    """What a launch script runs, with `echo` in Python's place, and its exit status."""
    clean = {key: value for key, value in os.environ.items() if key not in ("NNODES", "N_GPUS_PER_NODE", "MODEL_PATH")}
    return subprocess.run(
        ["bash", str(script), *arguments],
        cwd=cwd,
        env={**clean, "PYTHON": "echo", **environment},
        capture_output=True,
        text=True,
    )


def lines(path):
    """The lines of code that say something."""
    return {line.strip() for line in path.read_text().splitlines() if not line.strip().startswith("#")} - TRIVIAL


@pytest.mark.parametrize("path", scripts().values(), ids=scripts())
def test_a_launch_script_is_short(path):
    assert len(path.read_text().splitlines()) <= 15


def test_no_two_scripts_share_more_than_five_lines():
    for a, b in itertools.combinations(ALL, 2):
        assert len(lines(a) & lines(b)) <= 5, (a.name, b.name, lines(a) & lines(b))


def test_dry_run_prints_the_plan_and_the_command():
    done = launch(scripts()["dapo_qwen2.5_32b"], "--dry-run", "seed=3", DATA_DIR="/d", OUTPUT_DIR="/o", NNODES="4")
    plan, command = done.stdout.split("\n\ncommand:\n")
    words = ["data_dir='/d'", "output_dir='/o'", "trainer.nnodes=4", "experiment=qwen2.5_32b", "technique=dapo"]
    words += ["cluster=multi_node", "seed=3"]
    assert plan == f"-m recipe.preflight {' '.join(words)}"
    change, *run = command.replace("\\\n", " ").strip().splitlines()
    assert change == f"cd {REPOSITORY}"
    assert shlex.split(" ".join(run)) == ["echo", "-m", "recipe.main_dapo", *words]


def test_without_dry_run_that_command_is_run():
    arguments = {"DATA_DIR": "/d", "OUTPUT_DIR": "/o", "MODEL_PATH": "/it's/m"}
    done = launch(scripts()["dapo_qwen2.5_7b_math"], "seed=3", **arguments)
    words = r"actor_rollout_ref.model.path='/it\'s/m' data_dir='/d' output_dir='/o' trainer.nnodes=8"
    chosen = "experiment=qwen2.5_7b_math technique=wo_dynamic_sampling cluster=multi_node seed=3"
    assert done.stdout.strip() == f"-m recipe.main_dapo {words} {chosen}"


def test_paths_are_those_of_who_types_them(tmp_path):
    (tmp_path / "m").mkdir()
    done = launch(scripts()["dapo_qwen2.5_32b"], cwd=tmp_path, DATA_DIR="d", OUTPUT_DIR="o", MODEL_PATH="m")
    words = f"actor_rollout_ref.model.path='{tmp_path}/m' data_dir='{tmp_path}/d' output_dir='{tmp_path}/o'"
    assert words in done.stdout
    done = launch(scripts()["dapo_qwen2.5_32b"], cwd=tmp_path, MODEL_PATH="org/model")  # a Hub name
    assert "actor_rollout_ref.model.path='org/model'" in done.stdout


def test_a_failing_plan_fails_the_dry_run():
    done = launch(scripts()["dapo_qwen2.5_32b"], "--dry-run", PYTHON="false")
    assert done.returncode == 1
    assert "command:" in done.stdout


def test_environment_beats_the_script_and_the_command_line_beats_both():
    script = scripts()["dapo_qwen2.5_7b_math"]
    assert launch(script, "--overrides", NNODES="2").stdout.splitlines()[0] == "trainer.nnodes=2"
    assert launch(script, "--overrides", "trainer.nnodes=3", NNODES="2").stdout.splitlines()[-1] == "trainer.nnodes=3"


def test_a_rehearsal_is_run_by_its_own_module():
    done = launch(scripts()["dapo_qwen2.5_32b"], "cluster=rehearsal")
    assert done.stdout.startswith("-m recipe.rehearsal ")


def test_a_rehearsal_has_no_dry_run():
    done = launch(scripts()["dapo_qwen2.5_32b"], "--dry-run", "cluster=rehearsal")
    assert done.returncode == 2
    assert "a rehearsal has no dry run" in done.stderr
    assert done.stdout == ""


def test_a_dry_run_of_a_loop_says_so_to_the_preflight():
    done = launch(scripts()["dapo_qwen3.5_4b"], "--dry-run")
    assert done.stdout.startswith("-m recipe.preflight --loop ")


@pytest.mark.parametrize("folder", ["/end\\", "/it's", "/a\\'b", "/a\\b", "/$a b"])
def test_any_folder_reaches_hydra_as_it_is(folder):
    words = shlex.split(launch(scripts()["dapo_qwen2.5_32b"], "--dry-run", OUTPUT_DIR=folder).stdout.split(" -m ")[-1])
    (word,) = [word for word in words if word.startswith("output_dir=")]
    assert OverridesParser.create().parse_override(word).value() == folder


def test_a_folder_that_names_a_key_is_refused():
    done = launch(scripts()["dapo_qwen2.5_32b"], OUTPUT_DIR="/runs/${seed}")
    assert done.returncode == 2
    assert "/runs/${seed}" in done.stderr


def test_help_is_the_usage_and_runs_nothing():
    done = launch(scripts()["dapo_qwen2.5_32b"], "--help", PYTHON="false")
    assert done.returncode == 0
    assert "--dry-run" in done.stdout


def test_unknown_options_are_refused():
    done = launch(scripts()["dapo_qwen2.5_32b"], "--dryrun")
    assert done.returncode == 2
    assert "--dry-run" in done.stderr
