"""Responses that are sent later wait without a thread, and health is answered whatever the threads do."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.http import HttpResponse

from portal.web import handler
from portal.web.handler import THREADS, PooledHandler, hold_back

HELD, PLAIN = "/held", "/plain"


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Held responses wait for this event in place of the clock."""
    event = asyncio.Event()

    async def wait(_: float) -> None:
        await event.wait()

    monkeypatch.setattr(handler.asyncio, "sleep", wait)
    return event


@pytest.fixture
def pooled(monkeypatch: pytest.MonkeyPatch) -> PooledHandler:
    def respond(_: PooledHandler, scope: dict[str, Any], body: Any) -> HttpResponse:
        body.close()
        response = HttpResponse(scope["path"])
        if scope["path"] == HELD:
            hold_back(response, 1.0)
        return response

    monkeypatch.setattr(PooledHandler, "_respond", respond)
    return PooledHandler()


async def _ask(pooled: PooledHandler, path: str, **more: Any) -> bytes:
    sent: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", **more}
    await pooled(scope, receive, send)
    return b"".join(sent)


async def _all_held(pooled: PooledHandler, number: int) -> list[asyncio.Task[bytes]]:
    tasks = [asyncio.create_task(_ask(pooled, HELD)) for _ in range(number)]
    async with asyncio.timeout(30):
        while pooled._held_back < min(number, handler.MOST_HELD_BACK):
            await asyncio.wait(tasks, timeout=0.01)
    return tasks


async def test_held_responses_leave_every_thread_to_others(pooled: PooledHandler, released: asyncio.Event) -> None:
    held = await _all_held(pooled, 2 * THREADS)
    async with asyncio.timeout(30):
        assert await _ask(pooled, PLAIN) == PLAIN.encode()
    assert not any(task.done() for task in held)
    released.set()
    assert await asyncio.gather(*held) == [HELD.encode()] * len(held)
    assert pooled._held_back == 0


async def test_beyond_the_bound_a_response_is_sent_immediately(
    pooled: PooledHandler, released: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "MOST_HELD_BACK", 3)
    held = await _all_held(pooled, 3)
    async with asyncio.timeout(30):
        assert await _ask(pooled, HELD) == HELD.encode()
    released.set()
    await asyncio.gather(*held)


def test_nothing_is_held_for_longer_than_the_bound() -> None:
    response = HttpResponse()
    hold_back(response, 3600)
    assert response.held_back == handler.LONGEST_HELD_BACK  # type: ignore[attr-defined]


async def test_health_is_answered_in_time_while_every_thread_waits(
    pooled: PooledHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the database accepts connections and answers nothing."""
    goes_on = threading.Event()

    def stuck(_: PooledHandler, scope: dict[str, Any], body: Any) -> HttpResponse:
        body.close()
        goes_on.wait(60)
        return HttpResponse(scope["path"])

    monkeypatch.setattr(PooledHandler, "_respond", stuck)
    monkeypatch.setattr(handler, "HEALTH_WITHIN", 0.01)
    pages = [asyncio.create_task(_ask(pooled, PLAIN)) for _ in range(THREADS)]
    try:
        async with asyncio.timeout(30):
            for _ in range(4):
                assert b"no answer in time" in await _ask(pooled, handler.HEALTH)
        look = asyncio.create_task(_ask(pooled, handler.HEALTH, **{handler.USUAL_THREADS: True}))
        await asyncio.wait([look], timeout=0.05)
        assert not look.done(), "the master ends a process whose threads are stuck"
    finally:
        goes_on.set()
    assert await asyncio.gather(*pages) == [PLAIN.encode()] * THREADS
    assert await look == handler.HEALTH.encode()
