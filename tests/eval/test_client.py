"""The client against a server that fails in every way that was seen: each request is answered or given up, in time."""

import asyncio
import time

import pytest
from aiohttp import web

from eval.client import ChatClient, Endpoint, Refused, Unanswered, ask_all
from tests.eval.stub import Stub, completion

RETRIES = 2
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], "seed": 1}


async def half(request):
    """Promise a long body, send half a JSON object, hang up."""
    response = web.StreamResponse(headers={"Content-Length": "1000", "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"mess')
    request.transport.close()
    return response


async def reset(request):
    request.transport.abort()
    return web.Response()


async def hang(request):
    await asyncio.sleep(30)


FAULTS = {
    "429": lambda request: web.Response(status=429, text="slow down"),
    "429 with a wait": lambda request: web.Response(status=429, headers={"Retry-After": "0.01"}),
    "500": lambda request: web.json_response({"error": "boom"}, status=500),
    "503": lambda request: web.Response(status=503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}),
    "reset": reset,
    "hang": hang,
    "half": half,
    "half JSON": lambda request: web.Response(text='{"choices": [{"mess', content_type="application/json"),
    "no JSON": lambda request: web.Response(text="<html>"),
    "a list": lambda request: web.json_response([1]),
    "empty choices": lambda request: {**completion("x"), "choices": []},
    "no message": lambda request: {"choices": [{"index": 0}]},
    "null message": lambda request: {"choices": [{"index": 0, "message": None}]},
    "parts": lambda request: completion([{"type": "text", "text": "x"}]),
    "aborted": lambda request: completion("x", finish_reason="abort"),
}


def with_client(server, call, timeout_s=60.0, pause_s=0.001):
    async def run():
        endpoint = Endpoint(server.url, retries=RETRIES, pause_s=pause_s, timeout_s=timeout_s)
        async with ChatClient(endpoint) as client:
            return await call(client)

    return asyncio.run(run())


def ask(server, **limits):
    return with_client(server, lambda client: client.ask(BODY), **limits)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_passes_is_asked_again(serve, fault):
    times, timeout_s = (1, 3.0) if fault == "hang" else (RETRIES, 60.0)
    stub = Stub(fault=lambda request, body, before: FAULTS[fault](request) if before < times else completion("fine"))
    reply = ask(serve(stub), timeout_s=timeout_s)
    assert (reply.text, reply.attempts) == ("fine", times + 1)
    assert sum(stub.hits.values()) == times + 1


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "hang"])
def test_what_does_not_pass_is_given_up_after_so_many_attempts(serve, fault):
    stub = Stub(fault=lambda request, body, before: FAULTS[fault](request))
    with pytest.raises(Unanswered, match=r"attempt 3 of 3"):
        ask(serve(stub))
    assert sum(stub.hits.values()) == RETRIES + 1


def test_sleeping_server_is_hit_at_most_once_more_than_retries(serve):
    stub = Stub(latency=lambda body: 60.0)
    started = time.monotonic()
    with pytest.raises(Unanswered, match=r"no answer within 0\.2 s"):
        ask(serve(stub), timeout_s=0.2)
    assert sum(stub.hits.values()) <= RETRIES + 1
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_refusal_is_final_and_has_the_servers_words(serve, status):
    stub = Stub(fault=lambda request, body, before: web.json_response({"message": "because"}, status=status))
    with pytest.raises(Refused, match=rf"said {status}: .*because"):
        ask(serve(stub))
    assert sum(stub.hits.values()) == 1


@pytest.mark.parametrize(("statuses", "version"), [([503, 500], "0.24.0"), ([429], "0.24.0"), ([404], None)])
def test_version_is_asked_again_unless_the_server_refuses(serve, statuses, version):
    stub = Stub()
    stub.version_statuses = statuses
    assert with_client(serve(stub), ChatClient.version) == version


def test_version_of_a_server_that_fails_is_not_left_open(serve):
    stub = Stub()
    stub.version_statuses = [503] * (RETRIES + 1)
    with pytest.raises(Unanswered, match=r"/version: status 503.*attempt 3 of 3"):
        with_client(serve(stub), ChatClient.version)


def test_server_asks_for_a_pause_and_gets_it(serve):
    stub = Stub(
        fault=lambda request, body, before: (
            web.Response(status=429, headers={"Retry-After": "0.3"}) if not before else completion("fine")
        )
    )
    started = time.monotonic()
    assert ask(serve(stub)).attempts == 2
    assert time.monotonic() - started > 0.3


def test_missing_counts_and_content_are_no_error(serve):
    stub = Stub(fault=lambda request, body, before: {"choices": [{"message": {"content": None}}]})
    reply = ask(serve(stub))
    assert (reply.text, reply.reasoning, reply.finish_reason, reply.completion_tokens) == ("", None, None, None)


def test_latency_is_that_of_the_answer_without_failures_and_pauses(serve):
    stub = Stub(
        latency=lambda body: 0.05,
        fault=lambda request, body, before: web.Response(status=500) if not before else None,
    )
    started = time.monotonic()
    latency_s = ask(serve(stub), pause_s=0.4).latency_s
    assert 0.05 <= latency_s < time.monotonic() - started - 0.2


def test_first_exception_stops_all_and_leaves_no_task():
    seen = []

    async def handle(job):
        seen.append(job)
        await asyncio.sleep(0.01)
        if job == 3:
            raise ValueError("three")

    async def run():
        with pytest.raises(ValueError, match="three"):
            await ask_all(range(100), handle, 2)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())
    assert len(seen) <= 6
