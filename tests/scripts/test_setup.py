"""scripts/setup.sh and scripts/lock.sh against a stand-in for uv: what they leave behind, whatever goes wrong."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LOCKS = ["requirements.txt", "requirements-cpu.txt", "requirements-flash-attn.txt"]

pytestmark = pytest.mark.timeout(300)  # a second each, but dozens of small processes on what may be a busy machine

FAKE_UV = f"""#!/usr/bin/env bash
echo "$*" >>"$UV_LOG"
case "$1 $2" in
"venv "*)
    [ -z "${{FAIL_VENV:-}}" ] || exit 2
    mkdir -p "${{@: -1}}/bin"
    ln -s {sys.executable} "${{@: -1}}/bin/python"
    ;;
"pip install")
    case "$*" in *"${{SLOW:-nothing}}"*) sleep "${{SLOW_S:-0}}" ;; esac
    case "$*" in *"${{FAIL:-nothing}}"*) echo "error: Connection reset" >&2; exit 2 ;; esac
    ;;
"pip compile")
    [ -z "${{FAIL_COMPILE:-}}" ] || {{ echo "$FAIL_COMPILE" >&2; exit 2; }}
    while [ "$1" != -o ]; do shift; done
    [ -z "${{NEWER:-}}" ] || sed -i 's/==1$/==2/' "$2"
    ;;
esac
"""


@pytest.fixture
def repository(tmp_path):
    """A checkout with tiny locks, and a PATH on which uv is the stand-in and no GPU tool is found."""
    root = tmp_path / "repository"
    shutil.copytree(REPOSITORY / "scripts", root / "scripts")
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    for lock in LOCKS:
        (root / lock).write_text("package==1\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "uv").write_text(FAKE_UV)
    (tools / "uv").chmod(0o755)
    (tools / "python3").symlink_to(sys.executable)
    return root


def environment(root: Path, **settings: str) -> dict[str, str]:
    clean = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    path = f"{root.parent}/bin:/usr/bin:/bin"
    return clean | {"PATH": path, "UV_LOG": str(root.parent / "uv.log"), "MIN_DISK_GB": "0"} | settings


def run(root: Path, *words: str, script: str = "setup.sh", **settings: str) -> subprocess.CompletedProcess:
    command = ["bash", f"scripts/{script}", *words]
    return subprocess.run(command, cwd=root, env=environment(root, **settings), capture_output=True, text=True)


def calls(root: Path) -> list[str]:
    log = root.parent / "uv.log"
    return log.read_text().splitlines() if log.exists() else []


def left(root: Path) -> set[str]:
    """Names beside the checkout's own files; the lock file of the set-up itself is not one of them."""
    return {path.name for path in root.glob(".venv*")} - {".venv.lock"}


def test_second_run_does_nothing(repository):
    first = run(repository, "cpu")
    assert first.returncode == 0, first.stderr
    made = calls(repository)
    assert any("requirements-cpu.txt" in call and "--require-hashes" in call for call in made)
    assert run(repository, "cpu").returncode == 0
    assert run(repository).returncode == 0
    assert calls(repository) == made
    assert left(repository) == {".venv"}


@pytest.mark.parametrize("change", ["lock", "extra", "folder"])
def test_a_change_makes_it_anew(repository, change):
    assert run(repository, "cpu", FLASH_ATTN="skip").returncode == 0
    (repository / ".venv" / "old").touch()
    if change == "lock":
        (repository / "requirements-cpu.txt").write_text("package==2\n")
    if change == "folder":
        repository = repository.rename(repository.parent / "elsewhere")
    assert run(repository, "gpu" if change == "extra" else "cpu", FLASH_ATTN="skip").returncode == 0
    assert not (repository / ".venv" / "old").exists()
    assert left(repository) == {".venv"}


def test_gpu_installs_flash_attn_after_the_rest(repository):
    done = run(repository, "gpu", FLASH_ATTN="some.whl")
    installs = [call for call in calls(repository) if call.startswith("pip install")]
    assert [call.split()[-1] for call in installs][1:3] == ["requirements.txt", "some.whl"]
    assert done.returncode == 1  # the stand-in installs no flash_attn to import
    assert "flash-attn did not install" in done.stderr
    assert left(repository) == set()
    assert run(repository, "gpu", FLASH_ATTN="skip").returncode == 0


def test_cpu_where_no_accelerator_is_seen(repository):
    if list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("an NVIDIA GPU is seen here")
    assert run(repository).returncode == 0
    assert "extra cpu" in (repository / ".venv" / ".setup-stamp").read_text()


def test_gpu_where_nvidia_smi_lists_one(repository):
    tool = repository.parent / "bin" / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n")
    tool.chmod(0o755)
    assert run(repository, FLASH_ATTN="skip").returncode == 0
    assert "extra gpu" in (repository / ".venv" / ".setup-stamp").read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"FAIL": "requirements-cpu.txt"}, "requirements-cpu.txt did not install"),
        ({"FAIL": "-e ."}, "this repository did not install"),
        ({"FAIL_VENV": "1"}, "no environment could be made"),
        ({"PYTHON": "/bin/false"}, "3.10, 3.11 and 3.12"),
        ({"MIN_DISK_GB": "99999999"}, "GB are free here"),
    ],
)
def test_a_failure_says_so_and_leaves_nothing(repository, settings, message):
    done = run(repository, "cpu", **settings)
    assert done.returncode == 1
    assert message in done.stderr
    assert left(repository) == set()


def test_a_failure_keeps_the_environment_that_was_there(repository):
    assert run(repository, "cpu").returncode == 0
    (repository / ".venv" / "old").touch()
    (repository / "requirements-cpu.txt").write_text("package==2\n")
    assert run(repository, "cpu", FAIL="requirements-cpu.txt").returncode == 1
    assert (repository / ".venv" / "old").exists()
    assert left(repository) == {".venv"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(repository, how):
    settings = environment(repository, SLOW="requirements-cpu.txt", SLOW_S="30")
    process = subprocess.Popen(
        ["bash", "scripts/setup.sh", "cpu"], cwd=repository, env=settings, start_new_session=True
    )
    wait_for(lambda: any("--require-hashes" in call for call in calls(repository)))
    os.killpg(process.pid, how)  # as a terminal does: to the script and to what it runs
    assert process.wait(timeout=20) != 0
    assert left(repository) == set()


def test_an_interrupt_while_compiling_leaves_no_process(repository):
    slow = repository.parent / "bin" / "env"
    slow.write_text(f"#!/bin/sh\necho $$ >>{repository.parent}/pids\nexec sleep 300\n")
    slow.chmod(0o755)
    settings = environment(repository)
    process = subprocess.Popen(["bash", "scripts/setup.sh", "cpu"], cwd=repository, env=settings)
    pids = repository.parent / "pids"
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    process.terminate()  # the script alone, as a supervisor does
    assert process.wait(timeout=20) == 143
    assert not [pid for pid in pids.read_text().split() if Path("/proc", pid).exists()]
    assert left(repository) == set()


def test_what_a_kill_left_behind_is_cleared(repository):
    (repository / ".venv.new.1" / "bin").mkdir(parents=True)
    assert run(repository, "cpu").returncode == 0
    assert left(repository) == {".venv"}


def test_two_at_once_make_one(repository):
    settings = environment(repository, SLOW="requirements-cpu.txt", SLOW_S="1")
    command = ["bash", "scripts/setup.sh", "cpu"]
    both = [subprocess.Popen(command, cwd=repository, env=settings) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert sum("--require-hashes" in call for call in calls(repository)) == 1
    assert left(repository) == {".venv"}


def test_an_environment_made_by_hand_is_left_alone(repository):
    (repository / ".venv").mkdir()
    done = run(repository, "cpu")
    assert done.returncode == 1
    assert "was not made by this script" in done.stderr
    assert not list((repository / ".venv").iterdir())


def test_uv_is_installed_by_pip_into_a_place_of_its_own(repository):
    tools = repository.parent / "bin"
    (tools / "uv").rename(repository.parent / "uv-to-install")
    (repository / "requirements-cpu.txt").write_text("other==1\nuv==1 \\\n    --hash=sha256:0\n    # via me\nz==1\n")
    (tools / "python3").unlink()
    (tools / "python3").write_text(
        f"""#!/usr/bin/env bash
[ "$1 $2" = "-m pip" ] || exec {sys.executable} "$@"
[ "$3" != --version ] || exit 0
while [ $# -gt 1 ]; do
    [ "$1" != --target ] || {{ mkdir -p "$2/bin" && cp "{repository.parent}/uv-to-install" "$2/bin/uv"; }}
    [ "$1" != -r ] || cp "$2" "{repository.parent}/asked"
    shift
done
"""
    )
    (tools / "python3").chmod(0o755)
    done = run(repository, "cpu")
    assert done.returncode == 0, done.stderr
    assert (repository / ".uv" / "bin" / "uv").exists()
    assert (repository.parent / "asked").read_text() == "uv==1 \\\n    --hash=sha256:0\n"


@pytest.mark.parametrize(
    ("settings", "code"),
    [({}, 0), ({"NEWER": "1"}, 1), ({"FAIL_COMPILE": "no solution"}, 1), ({"FAIL_COMPILE": "Failed to fetch: x"}, 3)],
)
def test_lock_check_changes_nothing(repository, settings, code):
    done = run(repository, "--check", script="lock.sh", **settings)
    assert done.returncode == code, done.stdout + done.stderr
    assert [(repository / lock).read_text() for lock in LOCKS] == ["package==1\n"] * 3


def test_lock_writes_and_takes_the_environment_marker_off(repository):
    (repository / "requirements.txt").write_text(
        "a==1 ; python_full_version < '3.13' and sys_platform == 'linux' \\\n"
        "b==1 ; python_full_version >= '3.11' and python_full_version < '3.13' and sys_platform == 'linux' \\\n"
        "c==1 ; python_full_version < '3.11' and sys_platform == 'linux' \\\n"
    )
    assert run(repository, script="lock.sh").returncode == 0
    assert (repository / "requirements.txt").read_text() == (
        "a==1 \\\nb==1 ; python_full_version >= '3.11' \\\nc==1 ; python_full_version < '3.11' \\\n"
    )


def wait_for(condition, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
