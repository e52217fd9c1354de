"""The launcher around a server, with a small HTTP server in the place of the real one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from eval.served import free_port, parse, running
from recipe.loop.processes import PhaseFailed

SERVER = """
import http.server, json, os, sys, time
ready = time.monotonic() + {delay}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" and time.monotonic() > ready else 503)
        self.end_headers()
print("starting", flush=True)
print(json.dumps([os.environ.get("VLLM_API_KEY"), sys.argv]), flush=True)
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) <= before


def start(tmp_path, delay=0.0, timeout_s=20.0):
    port = free_port()
    code = SERVER.format(delay=delay, port=port)
    return running([sys.executable, "-c", code], f"http://127.0.0.1:{port}", tmp_path / "log", timeout_s), port


def test_it_is_ready_when_health_says_so_and_gone_afterwards(tmp_path):
    server, port = start(tmp_path, delay=0.7)
    before = time.monotonic()
    with server:
        assert time.monotonic() - before > 0.6
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/health")


def test_it_is_stopped_when_the_evaluation_fails(tmp_path):
    server, _ = start(tmp_path)
    with pytest.raises(ZeroDivisionError), server:
        raise ZeroDivisionError


def test_a_server_that_ends_is_reported_at_once_with_its_last_words(tmp_path):
    server = running(
        [sys.executable, "-c", "print('no such option'); exit(3)"], "http://127.0.0.1:9", tmp_path / "log", 60
    )
    before = time.monotonic()
    with pytest.raises(PhaseFailed, match=r"status 3(.|\n)*no such option"), server:
        pass
    assert time.monotonic() - before < 10


def test_a_server_that_never_gets_ready_is_given_up(tmp_path):
    server, _ = start(tmp_path, delay=100.0, timeout_s=5.0)
    with pytest.raises(PhaseFailed, match=r"not ready within 5 s(.|\n)*GET /health"), server:
        pass


def test_words_go_to_the_server_and_flags_to_the_client():
    own, server, client = parse(["dir", "tensor-parallel-size=8", "max-model-len=4096", "--n", "4", "--seed=1"])
    assert own.model == "dir"
    assert server == ["tensor-parallel-size=8", "max-model-len=4096"]
    assert client == ["--n", "4", "--seed=1"]
    assert parse(["dir", "--out", "x.jsonl"])[1:] == ([], ["--out", "x.jsonl"])


@pytest.mark.parametrize("word", ["tensor-parallel-size", "port=1", "host=0.0.0.0", "model=other"])
def test_words_of_neither_are_refused(word, capsys):
    with pytest.raises(SystemExit):
        parse(["dir", word])
    assert word in capsys.readouterr().err


# The launcher's `main` in a process of its own, with the small server and a client that writes down what it was given.
LAUNCHER = """
import pathlib, sys
import eval.served as served
start, served.free_port = served.running, lambda: {port}
served.running = lambda command, *more: start([sys.executable, "-c", {server!r}, *command[1:]], *more)
served._CLIENT = pathlib.Path({client!r})
sys.exit(served.main([{model!r}, *sys.argv[1:]]))
"""
CLIENT = "import json, os, sys; print(json.dumps([os.environ.get('VLLM_API_KEY'), sys.argv]))"


@pytest.mark.parametrize(
    ("words", "key"),
    [(["api-key=K-7"], "K-7"), (["api_key=K-7 K-8"], "K-7"), (["api-key=K-1", "api-key=K=7"], "K=7"), ([], "outer")],
)
def test_a_key_reaches_server_and_client_and_not_by_their_command_lines(tmp_path, words, key):
    port, client = free_port(), tmp_path / "client.py"
    client.write_text(CLIENT)
    server = SERVER.format(delay=0.0, port=port)
    code = LAUNCHER.format(port=port, server=server, client=str(client), model=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--server_log", tmp_path / "log", "--n", "1"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"VLLM_API_KEY": "outer"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for said in (done.stdout, (tmp_path / "log").read_text().splitlines()[1]):
        given, arguments = json.loads(said)
        assert given == key
        assert not any("K" in word for word in arguments[1:] if str(tmp_path) not in word)
    assert f"port={port}" in arguments  # the server's, as the launcher gave them
