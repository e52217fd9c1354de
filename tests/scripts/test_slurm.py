"""The Slurm script against stand-ins for srun, scontrol and ray that write down what they are asked."""

import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
STAND_INS = {
    "scontrol": 'printf "n1\\nn2\\n"',
    "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
    # Debian names the host 127.0.1.1 in /etc/hosts
    "hostname": '[ "$1" = -I ] && echo 10.0.0.1 10.0.0.2 || echo 127.0.1.1',
    # the cluster answers once its head has started; a started node stays until it is ended, unless FAIL names its role
    "ray": """if [ "$1" = status ]; then
    asked=$(grep -c "^start" "$RECORD") || exit 1
    echo " 0.0/$((asked * 8)).0 GPU"
    exit
fi
case " $* " in *" ${FAIL:-nothing}"*) echo "no such device" >&2; exit 3 ;; esac
trap 'echo ended >>"$RECORD"; kill $!; exit 0' TERM
[ "$2" != --head ] || /bin/sleep "${SLOW_HEAD:-0}"
echo "$@" >>"$RECORD"
/bin/sleep 60 >/dev/null 2>&1 & wait $!""",
    "sleep": 'exec /bin/sleep "$(echo "$1" | sed -E "s/^(5|1)$/0.1/")"',
}


def sbatch(tmp_path, job, **environment):
    """Run the script as Slurm would on two nodes; returns the process and what ray was asked."""
    stand_ins, record = tmp_path / "bin", tmp_path / "record"
    stand_ins.mkdir()
    for name, body in STAND_INS.items():
        (stand_ins / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (stand_ins / name).chmod(0o755)
    (tmp_path / "job.sh").write_text(job)
    slurm = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_GPUS_ON_NODE": "8"}
    path = f"{stand_ins}:{os.environ['PATH']}"
    record.touch()
    done = subprocess.run(
        ["bash", str(REPOSITORY / "scripts/slurm/dapo.sbatch"), "job.sh", "seed=3"],
        env={**os.environ, **slurm, "PATH": path, "RECORD": str(record), "RAY": str(stand_ins / "ray"), **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done, record.read_text().splitlines()


def test_ray_is_started_used_and_taken_down(tmp_path):
    done, asked = sbatch(tmp_path, 'echo "job $RAY_ADDRESS $NNODES x $N_GPUS_PER_NODE $*"')
    assert done.returncode == 0, done.stderr
    assert "job 10.0.0.1:6379 2 x 8 seed=3" in done.stdout
    starts = [line for line in asked if line.startswith("start")]
    assert "--head" in starts[0]
    assert "--address=10.0.0.1:6379" in starts[1]
    assert asked.count("ended") == 2


def test_the_others_wait_for_the_head(tmp_path):
    done, asked = sbatch(tmp_path, "exit 0", SLOW_HEAD="1")
    assert done.returncode == 0, done.stderr
    assert ["--head" in line for line in asked if line.startswith("start")] == [True, False]


@pytest.mark.parametrize(("role", "node"), [("--head", "n1"), ("--address", "n2")])
def test_a_node_that_cannot_start_ray_ends_the_job_at_once(tmp_path, role, node):
    done, asked = sbatch(tmp_path, "echo must not run", FAIL=role)
    assert done.returncode == 1
    assert f"ray start on {node} has ended" in done.stderr
    assert "must not run" not in done.stdout
    assert asked.count("ended") == (node == "n2")


def test_ray_of_a_conda_environment_is_found_on_the_path(tmp_path):
    done, asked = sbatch(tmp_path, "exit 0", RAY="")
    assert done.returncode == 0, done.stderr
    assert asked.count("ended") == 2


def test_a_ray_that_is_not_there_ends_the_job_at_once(tmp_path):
    done, asked = sbatch(tmp_path, "exit 0", RAY="", DAPO_VENV="/nowhere")
    assert done.returncode == 1
    assert "no ray at /nowhere/bin/ray" in done.stderr
    assert asked == []


def test_a_failing_run_fails_the_job_and_still_cleans_up(tmp_path):
    done, asked = sbatch(tmp_path, "exit 7")
    assert done.returncode == 7
    assert asked.count("ended") == 2


def test_a_node_that_never_joins_ends_the_job_with_the_count(tmp_path):
    done, asked = sbatch(tmp_path, "echo must not run", SLURM_GPUS_ON_NODE="9", RAY_WAIT_S="8")
    assert done.returncode == 1
    assert "16 of 18 GPUs" in done.stderr
    assert "must not run" not in done.stdout
    assert asked.count("ended") == 2


@pytest.mark.parametrize("word", ["--nodes=", "--gpus-per-node=8", "--ntasks-per-node=1"])
def test_the_allocation_is_the_published_one(word):
    assert f"#SBATCH {word}" in (REPOSITORY / "scripts/slurm/dapo.sbatch").read_text()
