"""A chat server that answers by rule: in the test's own process, or as `python -m tests.eval.stub` in one of its own.

The answer to a request depends on its messages and seed only, so two runs of a client can be compared text by text.
"""

import argparse
import asyncio
import hashlib
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web

Request = dict[str, Any]
# Given the request and how often it came before, an answer of its own, or None for the ordinary one.
Fault = Callable[[web.Request, Request, int], Any]


def answer(request: Request) -> dict[str, Any]:
    """The ordinary completion: right (34), wrong, unparsed or truncated, drawn by messages and seed."""
    rng = random.Random(hashlib.sha256(identity(request).encode()).digest())
    number = rng.choice([34, 34, 7, rng.randrange(1000)])
    text = f"Working {rng.random()}: \u00e4 \u2028 end.\n" + (f"Answer: {number}" if rng.random() < 0.9 else "no idea")
    reason = "length" if rng.random() < 0.1 else "stop"
    return completion(text, finish_reason=reason, tokens=len(text))


def completion(content: Any, finish_reason: str = "stop", tokens: int = 5, **message: Any) -> dict[str, Any]:
    """A chat completion with one choice."""
    return {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": finish_reason,
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": tokens},
    }


def identity(request: Request) -> str:
    """What makes two requests the same sample."""
    return json.dumps([request["messages"], request.get("seed")])


async def streamed(request: web.Request, content: dict[str, Any]) -> web.StreamResponse:
    """A completion as server-sent events, one word a chunk, with the usage at the end."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    words = content["choices"][0]["message"]["content"].split(" ")
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"content": word + " "}}]} for word in words]
    for chunk in [*chunks, {"choices": [], "usage": content["usage"]}]:
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


class Stub:
    """The server. `hits` counts requests by identity, `bodies` has them all, `peak` is the most at one time."""

    def __init__(self, latency: Callable[[Request], float] = lambda _: 0.0, fault: Fault | None = None) -> None:
        self.latency, self.fault = latency, fault
        self.hits: Counter[str] = Counter()
        self.bodies: list[Request] = []
        self.cards: list[dict[str, Any]] = [
            {"id": "/models/tiny", "root": "/models/tiny"},
            {"id": "tiny", "root": "/models/tiny"},
        ]
        self.api_key: str | None = None
        self.version_statuses: list[int] = []  # of the first answers at /version
        self.now = self.peak = 0

    def application(self) -> web.Application:
        """Routes of vLLM's server that the client uses."""
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/version", self._version)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.api_key is None or request.headers.get("Authorization") == f"Bearer {self.api_key}":
            return None
        return web.json_response({"error": "Unauthorized"}, status=401)

    async def _models(self, request: web.Request) -> web.Response:
        return self._refusal(request) or web.json_response({"object": "list", "data": self.cards})

    async def _version(self, request: web.Request) -> web.Response:
        status = self.version_statuses.pop(0) if self.version_statuses else 200
        return web.json_response({"version": "0.24.0"}, status=status)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refusal(request):
            return refusal
        body = await request.json()
        key = identity(body)
        before = self.hits[key]
        self.hits[key] += 1
        self.bodies.append(body)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            await asyncio.sleep(self.latency(body))
            special = self.fault(request, body, before) if self.fault else None
            if asyncio.iscoroutine(special):
                special = await special
            if isinstance(special, web.StreamResponse):
                return special
            content = special or answer(body)
            return await streamed(request, content) if body.get("stream") else web.json_response(content)
        finally:
            self.now -= 1


class Running:
    """A stub on a free loopback port, in a thread, for the length of a `with` block; `url` is its `/v1`."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub

    def __enter__(self) -> "Running":
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        runner = web.AppRunner(self.stub.application(), shutdown_timeout=0.1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_process(port: int, mean_latency_s: float) -> subprocess.Popen:
    """Start a stub as a process of its own and wait until it listens; the caller kills it."""
    command = [sys.executable, "-m", "tests.eval.stub", "--port", str(port), "--mean_latency_s", str(mean_latency_s)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    raise RuntimeError(f"the stub ended with status {process.returncode}")


def drawn_latency(mean_s: float) -> Callable[[Request], float]:
    """Exponential latency, drawn by the request's identity."""

    def draw(request: Request) -> float:
        return random.Random(identity(request)).expovariate(1.0 / mean_s) if mean_s else 0.0

    return draw


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mean_latency_s", type=float, default=0.0)
    options = parser.parse_args()
    stub = Stub(drawn_latency(options.mean_latency_s))
    web.run_app(stub.application(), host="127.0.0.1", port=options.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
