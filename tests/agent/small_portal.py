"""The portal's end of the link as a test sees it: a WebSocket server that speaks the contract."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from compute_agent.contract.messages import (
    SERVER,
    AgentEvent,
    Command,
    CommandAck,
    Enrol,
    Events,
    EventsAck,
    Hello,
    Message,
    Owned,
    Ownership,
    Refused,
    ToPortal,
    Welcome,
    decode_to_portal,
    encode,
)

M = TypeVar("M")
PATIENCE = 60.0


@dataclass
class SmallPortal:
    """Knows join tokens and credentials, keeps what it hears, and says what a test tells it to."""

    tokens: dict[str, str] = field(default_factory=dict)
    """Join token by host; used once."""
    credentials: dict[str, str] = field(default_factory=dict)
    acknowledge: bool = True
    forget_answer: bool = False
    """Take the enrolment, but break the connection before saying so."""
    heartbeat: float = 10.0
    samples: float = 0.0
    """Seconds between two samples; 0: it does not want any."""
    owned: dict[str, int] = field(default_factory=dict)
    """Instances that a host holds by the records, with their attempts: what commands were said about."""
    tells_ownership: bool = True
    frames: list[ToPortal] = field(default_factory=list)
    handshakes: list[tuple[str | None, str | None]] = field(default_factory=list)
    links: list[ServerConnection] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    image: bytes | None = None
    """The bits of every image; None: this host has no right to them."""
    promised: int = 0
    """Bytes the portal says it will send, when they are not as many as it sends."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0
    server: Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def listen(self) -> None:
        self.server = await serve(self._serve, "127.0.0.1", self.port, process_request=self._shake_hands)
        self.port = next(iter(self.server.sockets)).getsockname()[1]

    async def go_down(self) -> None:
        assert self.server is not None
        self.server.close()
        await self.server.wait_closed()

    def _shake_hands(self, connection: ServerConnection, request: Request) -> Response | None:
        bearer, host = request.headers.get("Authorization"), request.headers.get("X-Novella-Host")
        if request.path.startswith("/agent/v1/"):
            return self._image(connection, request.path, bearer)
        self.handshakes.append((bearer, host))
        if bearer is not None and self.credentials.get(host or "") != bearer.removeprefix("Bearer "):
            return connection.respond(HTTPStatus.FORBIDDEN, "unknown host\n")
        return None

    def _image(self, connection: ServerConnection, path: str, bearer: str | None) -> Response:
        self.asked.append((path, bearer))
        response = connection.respond(HTTPStatus.OK if self.image is not None else HTTPStatus.FORBIDDEN, "")
        response.body = self.image or b""
        del response.headers["Content-Length"]
        response.headers["Content-Length"] = str(self.promised or len(response.body))
        return response

    async def _serve(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            first = decode_to_portal(await connection.recv(decode=False))
            await self._hear(first)
            answer = self._answer(first)
            if self.forget_answer:
                self.forget_answer = False
                return
            await connection.send(encode(answer), text=True)
            if isinstance(answer, Refused):
                return
            if self.tells_ownership:
                owned = [Owned(SERVER, uuid, attempt) for uuid, attempt in self.owned.items()]
                await connection.send(encode(Ownership(subjects=owned)), text=True)
            async for frame in connection:
                if connection not in self.links:
                    self.links.append(connection)  # the agent has heard the welcome: it goes on talking
                await self._take(connection, decode_to_portal(frame))

    def _answer(self, first: ToPortal) -> Message:
        if isinstance(first, Enrol):
            if self.tokens.pop(first.host, None) != first.join_token:
                return Refused(reason="This join token is unknown or already used.", final=True)
            self.credentials[first.host] = first.credential
        if isinstance(first, Enrol | Hello):
            return Welcome(
                host=first.host,
                host_id="h",
                heartbeat_interval=self.heartbeat,
                audit_interval=60.0,
                sample_interval=self.samples,
            )
        return Refused(reason="Say hello first.")

    async def _take(self, connection: ServerConnection, message: ToPortal) -> None:
        await self._hear(message)
        if isinstance(message, Events) and self.acknowledge:
            await connection.send(encode(EventsAck(seq=message.events[-1].seq)), text=True)

    async def _hear(self, message: ToPortal) -> None:
        async with self.news:
            self.frames.append(message)
            self.news.notify_all()

    # ----- what tests ask -------------------------------------------------------------------------------------------

    async def until(self, ready: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: bool(ready()))

    async def connected(self, times: int = 1) -> ServerConnection:
        await self.until(lambda: len(self.links) >= times)
        return self.links[times - 1]

    def heard(self, kind: type[M]) -> list[M]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def events(self) -> list[AgentEvent]:
        return [event for frame in self.heard(Events) for event in frame.events]

    def acked(self) -> list[str]:
        return [number for frame in self.heard(CommandAck) for number in frame.ids]

    async def say(self, message: Message, link: int = -1) -> None:
        if isinstance(message, Command):
            self.owned[message.subject_id] = message.generation
        await self.links[link].send(encode(message), text=True)


@contextlib.asynccontextmanager
async def small_portal(**settings: object) -> AsyncIterator[SmallPortal]:
    portal = SmallPortal(**settings)  # type: ignore[arg-type]
    await portal.listen()
    try:
        yield portal
    finally:
        await portal.go_down()
