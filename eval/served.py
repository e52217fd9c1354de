"""Serves a model, evaluates it through the server, and stops the server.

    python -m eval.served MODEL [key=value ...] [--flag ...]

The `key=value` words are options of the server (`eval/llm.py`), the flags after them those of `eval/eval_aime24.py`.
The server gets a free port on loopback and writes to `--server_log`; no process of it is left, whatever happens.
A key (VLLM_API_KEY, or `api-key=K`, which a process list shows of this command only) reaches server and client in their
environment.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from recipe.loop.processes import PhaseFailed, adopt_orphans, end_descendants, tail
from recipe.scratch import remove_folders

_CLIENT = Path(__file__).with_name("eval_aime24.py")
_API_KEY = ("api-key", "api_key")
_GRACE_S = 30.0  # for Ray Serve to close its replicas and Ray to end


@contextlib.contextmanager
def running(
    command: list[str], base_url: str, log: Path, timeout_s: float, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server's `command` with its output in `log`; inside, `base_url`/health has answered 200.

    `environment` is the server's, by default that of this process.

    Raises:
        PhaseFailed: the server ended, or was not ready within `timeout_s` seconds; the log's last lines are in it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
    try:
        _wait_until_ready(server, f"{base_url}/health", log, timeout_s)
        yield
    finally:
        server.send_signal(signal.SIGINT)  # as Ctrl-C on `serve run`
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_GRACE_S)
        if server.poll() is None:
            server.kill()
            server.wait()
        remove_folders(server.pid)


def _wait_until_ready(server: subprocess.Popen, url: str, log: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        if server.poll() is not None:
            raise PhaseFailed(f"the server ended with status {server.returncode}; last lines of {log}:\n{tail(log)}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5.0).status_code == httpx.codes.OK:
                return
        if time.monotonic() > deadline:
            raise PhaseFailed(f"the server was not ready within {timeout_s:.0f} s; last lines of {log}:\n{tail(log)}")
        time.sleep(0.3)


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parse(arguments: list[str] | None = None) -> tuple[argparse.Namespace, list[str], list[str]]:
    """Our own options, the server's words and the client's flags."""
    parser = argparse.ArgumentParser(description="Serve a model, evaluate it, stop the server.", allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face folder or a name of the Hub")
    parser.add_argument("--server_log", type=Path, default=Path("outputs/eval/server.log"))
    parser.add_argument("--ready_timeout", type=float, default=3600.0, help="seconds until the server must be ready")
    own, rest = parser.parse_known_args(arguments)
    cut = next((i for i, word in enumerate(rest) if word.startswith("-")), len(rest))
    server, client = rest[:cut], rest[cut:]
    for word in server:
        key, _, value = word.partition("=")
        if not value:
            parser.error(f"{word!r} is neither key=value for the server nor a --flag for the client")
        if key in ("model", "host", "port"):
            parser.error(f"{word}: this command itself chooses {key}")
    return own, server, client


def _without_key(server_words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The server's words without a key, and an environment with it, which no process list shows.

    Of several keys the first is taken: this command's client is the only one that the server has.
    """
    values = [value for key, _, value in (word.partition("=") for word in server_words) if key in _API_KEY]
    keys = values[-1].split() if values else []  # as eval/server_options.py splits a list; of two words the last counts
    words = [word for word in server_words if word.partition("=")[0] not in _API_KEY]
    return words, {**os.environ, **({"VLLM_API_KEY": keys[0]} if keys else {})}


def _evaluate(command: list[str], environment: Mapping[str, str]) -> int:
    """Run the client and return its status; an interruption reaches it once, and it may close its files."""
    client = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return client.wait()
    except KeyboardInterrupt:
        client.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.wait(_GRACE_S)
        raise


def main(arguments: list[str] | None = None) -> int:
    """Command line; the client's exit status, or 1 when the server did not come up."""
    own, server_words, client_flags = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    port = free_port()
    server_words, environment = _without_key(server_words)
    serve = str(Path(sys.executable).with_name("serve"))
    server = [serve, "run", "eval.llm:build_app", f"model={own.model}", f"port={port}", *server_words]
    url = f"http://127.0.0.1:{port}"
    client = [sys.executable, str(_CLIENT), "--base_url", f"{url}/v1", "--model", own.model, *client_flags]
    adopt_orphans()
    try:
        print(f"starting the server of {own.model} (log: {own.server_log})", file=sys.stderr, flush=True)
        started = time.monotonic()
        with running(server, url, own.server_log, own.ready_timeout, environment):
            print(f"ready after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
            return _evaluate(client, environment)
    except PhaseFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        end_descendants()


if __name__ == "__main__":
    sys.exit(main())
