"""A recipe as a Ray job on a cluster of two nodes: two raylets on this machine, one logical GPU each."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import ROOT, metrics

RAY = str(Path(sys.executable).with_name("ray"))
PORT, DASHBOARD, AGENT = 6413, 8313, 8413  # each raylet's agent has a port of its own, AGENT and a number
LOGICAL = ("--num-cpus=32", "--num-gpus=1", "--object-store-memory=268435456", "--node-ip-address=127.0.0.1")
# Both nodes are this machine at 127.0.0.1; submit_ray.sh hands GLOO_* on by itself.
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
LOOPBACK["FORWARD"] = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


class Cluster:
    """Two raylets; whatever they started is ended with them."""

    def __init__(self, folder):
        self.before = set(psutil.pids())
        self.folder, self.agents = folder, 0
        self.ray("--head", f"--port={PORT}", f"--dashboard-port={DASHBOARD}", "--dashboard-host=127.0.0.1")
        self.second = self.add_node()

    def ray(self, *arguments):
        self.agents += 1
        command = [RAY, "start", *arguments, *LOGICAL, f"--dashboard-agent-listen-port={AGENT + self.agents}"]
        subprocess.run(command, check=True, capture_output=True, timeout=120, env={**os.environ, **self.environment()})

    def environment(self):
        own = {"RAY_TMPDIR": str(self.folder), "RAY_DISABLE_IMPORT_WARNING": "1"}
        return own | {"RAY_worker_register_timeout_seconds": "300"}  # two cores start a dozen Pythons

    def raylets(self):
        """Raylets of this cluster: those younger than the test that name its port."""
        found = []
        for process in psutil.process_iter(["pid", "name", "cmdline"]):
            if process.pid not in self.before and process.info["name"] == "raylet":
                found += [process] * (f":{PORT}" in " ".join(process.info["cmdline"]))
        return {process.pid: process for process in found}

    def add_node(self):
        known = set(self.raylets())
        self.ray(f"--address=127.0.0.1:{PORT}")
        (new,) = set(self.raylets()) - known
        return psutil.Process(new)

    def close(self):
        mine = [p for p in psutil.process_iter(["pid"]) if p.pid not in self.before and self.owns(p)]
        for process in mine:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue

    def owns(self, process):
        try:
            return process.environ().get("RAY_TMPDIR") == str(self.folder)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@pytest.fixture
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("r"))
    yield found
    found.close()


def submit(base, output, *more):
    """Start `submit_ray.sh` on the tiny recipe; its output goes to a pipe."""
    words = [
        "experiment=tiny",
        "cluster=cpu_multi_node",
        f"actor_rollout_ref.model.path={base}/base_model",
        f"data.train_files={base}/data/train.parquet",
        f"data.val_files={base}/data/test.parquet",
        "trainer.experiment_name=job",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.save_freq=1",
        "preflight.shared_checkpoints=true",
        *more,
    ]
    return subprocess.Popen(
        ["bash", "scripts/submit_ray.sh", "scripts/launch.sh", "recipe.main_dapo", *words],
        cwd=ROOT,
        env={
            **os.environ,
            "RAY_ADDRESS": f"http://127.0.0.1:{DASHBOARD}",
            "OUTPUT_DIR": str(output),
            "PYTHON": sys.executable,
            **LOOPBACK,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(job, timeout=600):
    output, _ = job.communicate(timeout=timeout)
    return job.returncode, output


def wait_for_checkpoint(run_dir, job, timeout=600):
    """Until the first step is saved and logged; fails with the job's output when it ends before."""
    tracker, deadline = run_dir / "checkpoints" / "latest_checkpointed_iteration.txt", time.monotonic() + timeout
    while not (tracker.is_file() and metrics(run_dir)):
        assert job.poll() is None, ended(job)[1][-4000:]
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return int(tracker.read_text())


def test_job_on_two_nodes_that_loses_one_says_so_and_its_rerun_resumes(base, cluster, tmp_path):
    run_dir = tmp_path / "job"
    job = submit(base, tmp_path, "trainer.total_training_steps=50")
    wait_for_checkpoint(run_dir, job)
    cluster.second.send_signal(signal.SIGKILL)
    status, output = ended(job)
    assert status != 0
    assert "a node of this training died: " in output, output[-4000:]
    assert "The same command resumes from the last checkpoint" in output, output[-4000:]
    last = int((run_dir / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())

    status, output = ended(submit(base, tmp_path, f"trainer.total_training_steps={last + 1}"))
    assert status == 2
    assert "the cluster has 1 node(s)" in output

    cluster.add_node()
    status, output = ended(submit(base, tmp_path, f"trainer.total_training_steps={last + 1}"))
    assert status == 0, output[-4000:]
    steps = [step for step, _ in metrics(run_dir)]
    assert steps[-1] == last + 1
    logged = [line for path in (run_dir / "metrics").glob("*.jsonl") for line in path.open()]
    assert len(logged) == len(steps)  # none twice
    for rank in (0, 1):
        assert (run_dir / f"checkpoints/global_step_{last + 1}/actor/model_world_size_2_rank_{rank}.pt").is_file()
