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
    # the second node joins only when it is asked to; a started one stays until it is ended
    "ray": """[ "$1" = status ] || trap 'echo ended >>"$RECORD"; kill $!; exit 0' TERM
echo "$@" >>"$RECORD"
if [ "$1" = status ]; then
    echo " 0.0/$(($(grep -c "^start" "$RECORD") * 8)).0 GPU"
else
    /bin/sleep 60 >/dev/null 2>&1 & wait $!
fi""",
    "sleep": 'exec /bin/sleep "$(echo "$1" | sed -E "s/^(10|5)$/0.2/")"',
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


def test_a_failing_run_fails_the_job_and_still_cleans_up(tmp_path):
    done, asked = sbatch(tmp_path, "exit 7")
    assert done.returncode == 7
    assert asked.count("ended") == 2


def test_a_node_that_never_joins_ends_the_job_with_the_count(tmp_path):
    done, asked = sbatch(tmp_path, "echo must not run", SLURM_GPUS_ON_NODE="9", RAY_WAIT_S="0")
    assert done.returncode == 1
    assert "16 of 18 GPUs" in done.stderr
    assert "must not run" not in done.stdout
    assert asked.count("ended") == 2


@pytest.mark.parametrize("word", ["--nodes=", "--gpus-per-node=8", "--ntasks-per-node=1"])
def test_the_allocation_is_the_published_one(word):
    assert f"#SBATCH {word}" in (REPOSITORY / "scripts/slurm/dapo.sbatch").read_text()
