"""Which Python the scripts run: PYTHON, else that of the environment DAPO_VENV, else what the PATH has."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RUNS = {
    "launch.sh": ["recipe.main_dapo"],
    "eval_aime24.sh": ["model"],
    "prepare_data.sh": [],
    "export_hf.sh": ["checkpoints", "out"],
    "submit_ray.sh": ["scripts/launch.sh", "recipe.main_dapo", "seed=3"],
}
STAND_IN = '#!/bin/sh\necho "$0 $*" >>"$RECORD"\n'


@pytest.fixture
def root(tmp_path):
    """The scripts in a folder without an environment."""
    shutil.copytree(REPOSITORY / "scripts", tmp_path / "scripts")
    return tmp_path


def stand_in(path):
    """An executable that writes down how it was called."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return str(path)


def run(root, script, *arguments, **environment):
    """Run a script; returns the process and what the stand-ins were asked."""
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "DAPO_VENV")}
    done = subprocess.run(
        ["bash", f"scripts/{script}", *arguments],
        cwd=root,
        env={**clean, "RECORD": str(root / "record"), **environment},
        capture_output=True,
        text=True,
    )
    record = root / "record"
    return done, record.read_text().splitlines() if record.exists() else []


@pytest.mark.parametrize("script", RUNS)
@pytest.mark.parametrize("folder", [".venv", "other", "/absolute"])
def test_every_script_runs_the_environment_that_dapo_venv_names(root, script, folder):
    chosen = str(root / "absolute") if folder == "/absolute" else folder
    for name in (".venv", chosen):
        python, ray = stand_in(root / name / "bin/python"), stand_in(root / name / "bin/ray")
    done, asked = run(root, script, *RUNS[script], **({} if folder == ".venv" else {"DAPO_VENV": chosen}))
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in asked} <= {python, ray}
    assert asked[0].startswith(python)


@pytest.mark.parametrize("script", sorted(RUNS))
def test_without_an_environment_it_is_what_python_names(root, script):
    python, ray = stand_in(root / "bin/python3.11"), stand_in(root / "bin/ray")
    path = f"{root / 'bin'}:{os.environ['PATH']}"
    done, asked = run(root, script, *RUNS[script], PYTHON="python3.11", PATH=path)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in asked} <= {python, ray}


@pytest.mark.parametrize("script", [*sorted(RUNS), "run_dapo_cpu.sh"])
def test_without_any_environment_it_is_one_line_with_the_remedy(root, script):
    python = Path(stand_in(root / "bin/python3"))
    python.write_text("#!/bin/sh\nexit 1\n")
    arguments = RUNS.get(script, ["--dry-run"])
    done, asked = run(root, script, *arguments, PATH=f"{root / 'bin'}:{os.environ['PATH']}", DAPO_VENV="gone")
    assert done.returncode == 1
    assert asked == []
    assert "no environment at gone" in done.stderr
    assert "bash scripts/setup.sh cpu" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_an_environment_a_python_that_has_the_packages_will_do(root):
    python = stand_in(root / "bin/python3")
    done, asked = run(root, "export_hf.sh", "a", "b", PATH=f"{root / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert asked[-1].startswith(f"{python} -m recipe.export")


@pytest.mark.parametrize("arguments", [["checkpoints", ""], ["", "out"], ["checkpoints"]])
def test_an_export_from_or_to_nothing_is_shown_its_usage(root, arguments):
    stand_in(root / ".venv/bin/python")
    done, asked = run(root, "export_hf.sh", *arguments)
    assert done.returncode == 2
    assert "CKPT OUT" in done.stderr
    assert asked == []


def test_a_dry_run_of_the_laptop_loop_makes_no_environment_and_reads_paths_as_the_others_do(root, tmp_path):
    python = stand_in(root / ".venv/bin/python")
    (tmp_path / "elsewhere").mkdir()
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "DAPO_VENV")}
    command = ["bash", str(root / "scripts/run_dapo_cpu.sh"), "--dry-run"]
    environment = {**clean, "RECORD": str(root / "record"), "OUTPUT_DIR": "o"}
    done = subprocess.run(command, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (asked,) = (root / "record").read_text().splitlines()
    assert asked.startswith(f"{python} -m recipe.preflight")
    assert f"output_dir='{tmp_path}/elsewhere/o'" in asked


@pytest.mark.parametrize(("model", "sent"), [("m", "{root}/m"), ("org/model", "org/model"), ("/nodes/m", "/nodes/m")])
def test_a_job_gets_the_paths_of_who_submits_it(root, model, sent):
    python = Path(stand_in(root / ".venv/bin/python"))
    python.write_text('#!/bin/sh\necho "$DATA_DIR $OUTPUT_DIR $MODEL_PATH" >>"$RECORD"\n')
    stand_in(root / ".venv/bin/ray")
    (root / "m").mkdir()
    paths = {"DATA_DIR": "d/../d", "OUTPUT_DIR": "o", "MODEL_PATH": model}
    done, asked = run(root, "submit_ray.sh", *RUNS["submit_ray.sh"], **paths)
    assert done.returncode == 0, done.stderr
    assert asked[0] == f"{root}/d {root}/o {sent.format(root=root)}"


def test_a_submission_leaves_no_file_and_ends_as_ray_does(root):
    python, ray = (Path(stand_in(root / ".venv/bin" / name)) for name in ("python", "ray"))
    python.write_text("#!/bin/sh\ntouch .submitted.json\n")
    ray.write_text('#!/bin/sh\nls -A >>"$RECORD"\nexit 7\n')
    done, asked = run(root, "submit_ray.sh", *RUNS["submit_ray.sh"])
    assert done.returncode == 7
    assert ".submitted.json" in asked
    assert not (root / ".submitted.json").exists()


def test_a_launch_script_that_fails_submits_nothing(root):
    stand_in(root / ".venv/bin/python")
    stand_in(root / ".venv/bin/ray")
    done, asked = run(root, "submit_ray.sh", "scripts/launch.sh", "recipe.main_dapo", "--no-such-option")
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr
    assert asked == []
