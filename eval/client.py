"""Asks an OpenAI-compatible server: one connection pool, one timeout, capped retries. Nothing about evaluation."""

import asyncio
import json
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp

T = TypeVar("T")
_LONGEST_PAUSE_S = 60.0
_IDLE_S = 2.0  # a pooled connection is given up before servers do it: uvicorn closes idle ones after 5 s
_TOO_MANY = 429
_VERSION_TIMEOUT_S = 10.0
_SHOWN = 500  # characters of a server's message


@dataclass(frozen=True)
class Endpoint:
    """Where and how to ask.

    Attributes:
        base_url: up to and including `/v1`.
        api_key: bearer token, or None.
        concurrency: most requests, and connections, at one time.
        timeout_s: seconds from sending a request to having its whole answer.
        retries: how often a request is repeated after 429, 5xx, a broken connection, the timeout or a broken answer.
        pause_s: pause before the first repetition; it doubles each time, up to a minute.
    """

    base_url: str = "http://127.0.0.1:8000/v1"
    api_key: str | None = None
    concurrency: int = 128
    timeout_s: float = 3600.0
    retries: int = 4
    pause_s: float = 0.5


class Refused(ValueError):
    """The server said 4xx: the request is wrong and asking again does not help."""


class Unanswered(Exception):
    """All attempts failed; the message is the last failure."""


class _Failed(Exception):
    """One attempt failed in a way that may pass. `pause_s` is what the server asked to wait, if it did."""

    def __init__(self, message: str, pause_s: float | None = None) -> None:
        super().__init__(message)
        self.pause_s = pause_s


@dataclass(frozen=True)
class Reply:
    """One chat completion. Token counts and the server's fingerprint are None when it does not give them."""

    text: str
    reasoning: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    system_fingerprint: str | None
    latency_s: float
    attempts: int


class ChatClient:
    """A session with one server; an async context manager."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def __aenter__(self) -> "ChatClient":
        """Open the pool."""
        key = self.endpoint.api_key
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            connector=aiohttp.TCPConnector(limit=self.endpoint.concurrency, keepalive_timeout=_IDLE_S),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the pool; requests in flight are aborted, which the server notices."""
        await self._session.close()

    async def models(self) -> list[dict[str, Any]]:
        """Cards of `/v1/models`.

        Raises:
            Refused: the server says 4xx, for instance 401 without the right key.
            Unanswered: there is no server.
        """

        async def once() -> list[dict[str, Any]]:
            content = await self._json("GET", f"{self.endpoint.base_url}/models")
            cards = content.get("data")
            if not isinstance(cards, list) or not all(isinstance(card, dict) and "id" in card for card in cards):
                raise _Failed(f"/models answered {_short(json.dumps(content))}")
            return cards

        return (await self._retrying(once))[0]

    async def version(self) -> str | None:
        """vLLM's version, from `/version` beside `/v1`; None when the server does not have it.

        Raises:
            Unanswered: no attempt brought an answer; the version is one of the settings, so it is not left open.
        """
        url = f"{self.endpoint.base_url.removesuffix('/v1')}/version"

        async def once() -> dict[str, Any]:
            return await self._json("GET", url, timeout_s=_VERSION_TIMEOUT_S)

        try:
            content, _ = await self._retrying(once)
        except Refused:
            return None
        except Unanswered as error:
            raise Unanswered(f"{url}: {error}") from error
        return str(content["version"]) if "version" in content else None

    async def ask(self, body: dict[str, Any]) -> Reply:
        """One chat completion.

        Raises:
            Refused: the server says 4xx.
            Unanswered: no attempt brought an answer.
        """

        async def once() -> tuple[dict[str, Any], float]:
            started = time.monotonic()
            content = await self._json("POST", f"{self.endpoint.base_url}/chat/completions", body)
            return _reply_fields(content), time.monotonic() - started

        (fields, latency_s), attempts = await self._retrying(once)
        return Reply(**fields, latency_s=latency_s, attempts=attempts)

    async def _retrying(self, once: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """Result of `once` and the number of attempts it took."""
        attempts = self.endpoint.retries + 1
        for attempt in range(1, attempts + 1):
            try:
                return await once(), attempt
            except _Failed as failure:
                if attempt == attempts:
                    raise Unanswered(f"{failure} (attempt {attempt} of {attempts})") from failure
                await asyncio.sleep(_pause(self.endpoint.pause_s, attempt, failure.pause_s))
        raise AssertionError("there is at least one attempt")

    async def _json(
        self, method: str, url: str, body: dict[str, Any] | None = None, timeout_s: float = math.inf
    ) -> dict[str, Any]:
        """One request; the JSON object that it brought."""
        timeout_s = min(timeout_s, self.endpoint.timeout_s)
        try:
            timeout = aiohttp.ClientTimeout(total=timeout_s)
            async with self._session.request(method, url, json=body, timeout=timeout) as response:
                raw = await response.read()
                status, headers = response.status, response.headers
        except asyncio.TimeoutError as error:
            raise _Failed(f"no answer within {timeout_s:g} s") from error
        except aiohttp.InvalidURL as error:
            raise Refused(f"{url!r} is no address; --base_url looks like http://127.0.0.1:8000/v1") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _Failed(f"{type(error).__name__}: {error}") from error
        if status == _TOO_MANY or status >= 500:
            raise _Failed(f"status {status}: {_short(_text(raw))}", _seconds(headers.get("Retry-After")))
        if status >= 400:
            raise Refused(f"{url} said {status}: {_short(_text(raw))}")
        return _parse(raw)


async def ask_all(jobs: Iterable[T], handle: Callable[[T], Awaitable[None]], concurrency: int) -> None:
    """Call `handle` on every job, at most `concurrency` at a time, in order of start.

    The first exception, a cancellation included, cancels what is running and is raised.
    """
    left = iter(jobs)

    async def work() -> None:
        for job in left:
            await handle(job)

    tasks = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reply_fields(content: dict[str, Any]) -> dict[str, Any]:
    """Fields of `Reply` from a chat completion; what is no completion is a failed attempt."""
    try:
        choice = content["choices"][0]
        message, finish_reason = choice["message"], choice.get("finish_reason")
        text = message.get("content") or ""
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        usage = content.get("usage") or {}
        counts = {name: _whole(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise _Failed(f"no completion in {_short(json.dumps(content))}") from error
    if not isinstance(text, str) or not isinstance(reasoning, str):
        raise _Failed(f"content is no text in {_short(json.dumps(content))}")
    if finish_reason in ("abort", "error"):
        raise _Failed(f"the server gave up the request (finish_reason {finish_reason})")
    return {
        "text": text,
        "reasoning": reasoning or None,
        "finish_reason": finish_reason,
        "system_fingerprint": content.get("system_fingerprint"),
        **counts,
    }


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw)
    except ValueError as error:
        raise _Failed(f"answer is not JSON: {_short(_text(raw))}") from error
    if not isinstance(content, dict):
        raise _Failed(f"answer is no object: {_short(_text(raw))}")
    return content


def _pause(first_s: float, attempt: int, asked_s: float | None) -> float:
    """Seconds before the next attempt: doubling, with half of it drawn, and not less than the server asked for."""
    grown = first_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
    return min(max(grown, asked_s or 0.0), _LONGEST_PAUSE_S)


def _seconds(header: str | None) -> float | None:
    try:
        return float(header) if header else None
    except ValueError:  # a date; the doubling pause will do
        return None


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
