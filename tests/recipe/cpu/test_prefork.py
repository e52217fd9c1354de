"""Workers by fork behave as a plain python would, and none outlives whoever wanted it."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from recipe.cpu.prefork import prefork, suits
from recipe.leftovers import runs

WORKER = """
import json, os, random, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "flag": os.environ.get("FLAG"), "path": sys.path[0],
                  "name": __name__, "parent": os.getppid(), "imported": "wave" in sys.modules, "draw": random.random(),
                  "home": "HOME" in os.environ}))
print("to stderr", file=sys.stderr)
if sys.argv[1:] == ["stay"]:
    sys.stdout.flush()
    import time
    time.sleep(60)
sys.exit(7)
"""


@pytest.fixture
def worker(tmp_path):
    path = tmp_path / "worker.py"
    path.write_text(WORKER)
    return path


@pytest.fixture
def python(tmp_path):
    with prefork(tmp_path, {"FROM_DRIVER": "1"}, ["colorsys"], ["wave"]) as command:
        yield command


def start(python, *arguments, **options):
    return subprocess.Popen([python, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def seen(process):
    return json.loads(process.stdout.readline())


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def test_a_worker_has_its_own_surroundings_and_what_was_imported(python, worker, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    process = start(python, worker, "a b", "--c=1", cwd=folder, env={"FLAG": "1"})
    found = seen(process)
    assert process.wait(20) == 7
    assert process.stderr.read() == b"to stderr\n"
    assert found["argv"] == ["a b", "--c=1"]
    assert (found["cwd"], found["flag"], found["home"]) == (str(folder), "1", False)
    assert (found["path"], found["name"], found["imported"]) == (str(tmp_path), "__main__", True)
    assert found["parent"] != os.getpid() != process.pid  # forked by the server


@pytest.mark.parametrize("library", ["setproctitle", "ray._raylet"])
def test_a_worker_can_be_given_a_title(tmp_path, library):
    program = tmp_path / "program.py"
    program.write_text(
        f"import importlib; importlib.import_module({library!r}).setproctitle('ray::Title')\n"
        "print(open('/proc/self/cmdline').read())"
    )
    with prefork(tmp_path, {}, ["colorsys"], ["ray"]) as python:
        process = start(python, program)
        assert process.stdout.readline().rstrip(b"\0\n ") == b"ray::Title"
        assert process.wait(20) == 0


def test_a_worker_that_must_be_born_otherwise_is_no_fork(python, worker):
    """Ray's library keeps the job and the raylet that it was loaded under."""
    environ = {"RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": "7"}
    others = [environ | {"RAY_RAYLET_PID": "8"}, environ | {"PYTHONHASHSEED": "0"}, environ | {"PYTHONPATH": "/else"}]
    others += [environ | {"LD_PRELOAD": "/else/libelse.so"}]
    for env, forked in ((environ, True), *((other, False) for other in others), (environ, True)):
        process = start(python, worker, env=env)
        found = seen(process)
        assert process.wait(20) == 7
        assert (found["imported"], found["parent"] != os.getpid()) == (forked, forked)


def test_workers_draw_their_own_random_numbers(python, worker):
    processes = [start(python, worker) for _ in range(3)]
    assert len({seen(process)["draw"] for process in processes}) == 3
    assert [process.wait(20) for process in processes] == [7] * 3


def worker_of(found):
    (child,) = psutil.Process(found["parent"]).children()
    return child


def test_a_worker_ends_with_its_client_and_the_client_with_its_worker(python, worker):
    process = start(python, worker, "stay")
    child = worker_of(seen(process))
    process.kill()
    wait_until(lambda: not child.is_running())

    process = start(python, worker, "stay")
    worker_of(seen(process)).kill()
    assert process.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_no_worker_outlives_the_driver(worker, tmp_path, how):
    driver = f"""
import subprocess, sys
from pathlib import Path
from recipe.cpu.prefork import prefork
with prefork(Path({str(tmp_path)!r}), {{}}, ["colorsys"], ["wave"]) as command:
    subprocess.Popen([command, {str(worker)!r}, "stay"])
    sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found = seen(process)
    family = [psutil.Process(found["parent"]), worker_of(found)]
    process.stdin.close() if how == "ends" else process.kill()
    process.wait(20)
    for each in family:
        wait_until(lambda each=each: not runs(each))


def test_sigterm_is_the_workers_own(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import signal, sys, time
def last_words(*_):
    print("ending", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, last_words)
print("ready", flush=True)
time.sleep(60)
""")
    process = start(python, program)
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    assert process.stdout.readline() == b"ending\n"
    assert process.wait(20) == 3


def test_a_client_that_is_killed_after_its_sigterm_takes_its_worker_with_it(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)"
    )
    process = start(python, program)
    child = psutil.Process(int(process.stdout.readline()))
    process.terminate()
    time.sleep(0.2)
    assert runs(child)
    process.kill()
    wait_until(lambda: not runs(child))


def test_a_pipe_ends_with_its_worker_though_others_live_on(python, worker):
    other = start(python, worker, "stay")
    seen(other)
    process = start(python, worker)
    assert len(process.stdout.read().splitlines()) == 1  # to the end of the file
    assert process.wait(20) == 7
    other.kill()
    other.wait()


@pytest.mark.parametrize("breaks_off_after", [0, 5, 30])
def test_a_client_that_breaks_off_costs_nothing(python, worker, tmp_path, breaks_off_after):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tmp_path / "prefork.socket"))
        message = (1000).to_bytes(8, "big") + b"x" * 30
        socket.send_fds(connection, [message[:breaks_off_after] or b"\0"], [0])
    process = start(python, worker)
    assert seen(process)["imported"]
    assert process.wait(20) == 7


def test_only_environment_variables_suit_a_fork():
    assert suits({"env_vars": {"A": "1"}, "py_executable": None, "working_dir": ""})
    assert not suits({"env_vars": {}, "pip": ["x"]})
    assert not suits({"py_executable": "uv run"})


def test_multiprocessing_of_a_worker_forks_too(python, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import json, multiprocessing, os, sys
from colorsys import rgb_to_hsv

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(rgb_to_hsv, (0, 0, 1))
        parent = pool.apply(os.getppid)
    print(json.dumps([result, parent, os.getppid(), sys.executable]))
""")
    process = start(python, program)
    (_, _, blue), spawned_by, forked_by, executable = seen(process)
    assert blue == 1
    assert spawned_by == forked_by
    assert executable == sys.executable
    assert process.wait(20) == 0


def test_without_an_answer_a_plain_python_runs(python, worker):
    for line in Path(python).read_text().splitlines():
        if line.startswith("exec"):
            *client, _ = shlex.split(line.removeprefix("exec "))
    process = subprocess.Popen([*client[:-1], client[-1] + ".gone", worker], stdout=subprocess.PIPE)
    found = seen(process)
    assert process.wait(20) == 7
    assert found["parent"] == os.getpid()
    assert not found["imported"]


@pytest.fixture
def with_actor(tmp_path, monkeypatch):
    """A module like verl's: it imports Ray and has an actor. Its name, and a program that draws one of Ray's ids."""
    (tmp_path / "with_actor.py").write_text("import ray\n@ray.remote\nclass Actor:\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = tmp_path / "draw.py"
    program.write_text(
        "import sys; forked = 'with_actor' in sys.modules\nimport ray; print(ray.ObjectRef.from_random().hex(), forked)"
    )
    return "with_actor", program


def drawn(python, program):
    processes = [start(python, program) for _ in range(2)]
    return [process.communicate(timeout=60)[0].decode().split() for process in processes]


def test_forks_draw_ray_ids_of_their_own(tmp_path, with_actor):
    module, program = with_actor
    with prefork(tmp_path, {}, ["colorsys"], ["ray", module]) as python:
        (one, forked), (other, forked_too) = drawn(python, program)
    assert (forked, forked_too) == ("True", "True")
    assert one != other


def test_a_server_whose_forks_would_draw_the_same_ids_forks_none(tmp_path, with_actor, capfd):
    module, program = with_actor
    with prefork(tmp_path, {}, ["colorsys"], [module]) as python:
        (one, forked), (other, forked_too) = drawn(python, program)
    assert (forked, forked_too) == ("False", "False")
    assert one != other
    assert "draws ids that all workers would draw again" in capfd.readouterr().err
