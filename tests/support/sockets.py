"""Sockets against the real routing, with a page that shows which events it was rendered for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.sessions.backends.signed_cookies import SessionStore

from portal.routing import websocket_router
from provisioning.common.context import RequestContext
from provisioning.events.selectors import LoggedEvent

HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"
WITHIN = 60.0

in_db = sync_to_async
"""Run a function that uses the database, from an async test."""


def render(page: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
    """A page that names what it was rendered for."""
    return f"{page}|{context.project_name}|{','.join(str(event.payload['n']) for event in events)}"


class Socket(WebsocketCommunicator):
    """A client's end.  It waits ``WITHIN`` seconds; Channels' own second is too short on a busy machine: it cancels the
    application, which then leaves behind what it counts.
    """

    async def connect(self, timeout: float = WITHIN) -> Any:
        return await super().connect(timeout)

    async def receive_output(self, timeout: float = WITHIN) -> Any:
        return await super().receive_output(timeout)

    async def receive_from(self, timeout: float = WITHIN) -> Any:
        return await super().receive_from(timeout)

    async def disconnect(self, code: int = 1000, timeout: float = WITHIN) -> None:
        await super().disconnect(code, timeout)

    async def wait(self, timeout: float = WITHIN) -> None:
        await super().wait(timeout)

    async def json(self) -> Any:
        """The next frame."""
        return json.loads(await self.receive_from(WITHIN))

    async def json_with(self, key: str) -> Any:
        """Read until a frame has this key; returns that frame."""
        while key not in (result := await self.json()):
            pass
        return result

    async def closed(self) -> int:
        """Read until the other side closes; returns its code."""
        while True:
            message = await self.receive_output(WITHIN)
            if message["type"] == "websocket.close":
                return int(message.get("code") or 1000)


Open = Callable[..., Awaitable[Socket]]


def cookie_of(token: str) -> str:
    """The session cookie of a browser that is signed in with the token."""
    session = SessionStore()
    session["token"] = token
    session.save()
    return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"


@pytest.fixture
async def open_socket(transactional_db: None) -> AsyncIterator[Open]:
    """Open sockets; all are closed at the end."""
    opened: list[Socket] = []
    router_of = functools.cache(websocket_router)

    async def opener(path: str, *, page: Any = render, **headers: str) -> Socket:
        sent = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
        socket = Socket(router_of(page), path, headers=pairs)
        socket.accepted, socket.denied_with = await socket.connect(WITHIN)  # type: ignore[attr-defined]
        opened.append(socket)
        return socket

    yield opener
    for socket in opened:
        # A socket that was waited for in vain is cancelled. Passed on from here, that would leave the fixture half torn
        # down, and every later test of the run would fail.
        with contextlib.suppress(asyncio.CancelledError):
            await socket.disconnect()
