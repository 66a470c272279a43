"""A proxy between agents and web: forwards frames, and on demand cuts, stalls, duplicates, delays and reorders them.

The connections of live migrations between two agents also go through it, because it replaces the address of the
receiving host in the command of the sending one (``detours``).

It simulates only faults that networks cause to TCP: no frame of a surviving connection is lost, and reports keep their
order. Commands of different instances may be reordered, because only the commands of one instance are ordered.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tools.chaos.faults.detours import Detours
from tools.chaos.faults.frames import Frame, read_frame

MOST_HEAD = 65_536
CHUNK = 65_536
DOUBLED = {"command", "command_ack", "events", "events_ack", "heartbeat", "resource_audit", "call_reply"}
"""Types of messages that may arrive twice. The first message of a link is not among them: a link begins only once."""
HELD_FOR = 0.3
"""Seconds for which a command is delayed, so that a later command can overtake it."""
_HOST = re.compile(rb"^x-novella-host: *(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass(eq=False)
class Link:
    """One agent's connection."""

    host: str
    frames: bool
    """Whether the connection is the agent's WebSocket link, not the transfer of a file."""
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    chance: random.Random
    held: list[Frame] = field(default_factory=list)
    stalled_until: float = 0.0
    swallowing: str = ""
    """The direction whose frames are dropped: ``up``, ``down`` or ``both``."""

    def cut(self) -> None:
        """Abort the connection; data in transit is lost."""
        for writer in self.writers:
            with contextlib.suppress(RuntimeError, OSError):
                writer.transport.abort()


class Proxy:
    """The proxy, in a thread with its own event loop."""

    def __init__(self, port: int, upstream: int, seed: int) -> None:
        """Listen on ``port`` and connect to ``upstream``, both on the loopback address."""
        self._port, self._upstream, self._seed = port, upstream, seed
        self._loop = asyncio.new_event_loop()
        self._links: set[Link] = set()
        self._detours = Detours(random.Random(f"{seed} detours"))  # noqa: S311 - to be the same again
        self._made = 0
        self._until = {"double": 0.0, "delay": 0.0, "reorder": 0.0}
        self.done: dict[str, int] = {}
        """Number of faults by their kind: ``doubled``, ``delayed``, ``reordered``."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the proxy does not listen")

    def stop(self) -> None:
        if self._thread.ident is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=1 << 20)
        )
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._detours.close()
        for link in list(self._links):
            link.cut()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    # ----- faults, from other threads -------------------------------------------------------------------------------

    def _call(self, work: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(work)

    def hosts(self) -> list[str]:
        """Return the names of the connected hosts."""
        return sorted({link.host for link in list(self._links) if link.frames and link.host})

    def cut(self, host: str | None = None) -> None:
        """Break the connections of a host, or all connections."""

        def all_of_them() -> None:
            for link in self._of(host):
                link.cut()

        self._call(all_of_them)

    def stall(self, host: str, seconds: float) -> None:
        """Delay all frames of a host for a while; they arrive afterwards."""
        until = time.monotonic() + seconds

        def work() -> None:
            for link in self._of(host):
                link.stalled_until = until

        self._call(work)

    def swallow(self, host: str, way: str) -> None:
        """Start to drop all data of a host, in one direction (``up``, ``down``) or in ``both``. The caller cuts the
        link later.
        """

        def work() -> None:
            for link in self._of(host):
                link.swallowing = way

        self._call(work)

    def mangle(self, what: str, seconds: float) -> None:
        """Duplicate, delay or reorder frames of all links for a while. ``what`` is ``double``, ``delay`` or
        ``reorder``.
        """
        until = time.monotonic() + seconds

        def work() -> None:
            self._until[what] = until

        self._call(work)

    def cut_moves(self, seconds: float) -> None:
        """Cut each connection between two agents after a moment, for a while."""
        self._call(lambda: self._detours.cut(seconds))

    def stall_moves(self, seconds: float) -> None:
        """Delay all data between two agents for a while; it arrives afterwards."""
        self._call(lambda: self._detours.stall(seconds))

    def calm(self) -> None:
        """End all faults, and cut the links whose frames are dropped."""

        def work() -> None:
            self._until = dict.fromkeys(self._until, 0.0)
            self._detours.calm()
            for link in list(self._links):
                link.stalled_until = 0.0
                if link.swallowing:
                    link.cut()

        self._call(work)

    def _of(self, host: str | None) -> list[Link]:
        return [link for link in self._links if host is None or link.host == host]

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    # ----- passing on -----------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            try:
                await self._pass_on(reader, writer)
            finally:
                writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        there, out = await asyncio.open_connection("127.0.0.1", self._upstream, limit=1 << 20)
        found = _HOST.search(head)
        self._made += 1
        link = Link(
            host=found[1].decode(errors="replace") if found else "",
            frames=head.startswith(b"GET /ws/agent HTTP"),
            writers=(writer, out),
            chance=random.Random(f"{self._seed} link {self._made}"),  # noqa: S311 - to be the same again
        )
        self._links.add(link)
        try:
            out.write(head)
            if link.frames:
                writer.write(await there.readuntil(b"\r\n\r\n"))
            await asyncio.gather(self._pump(link, reader, out, "up"), self._pump(link, there, writer, "down"))
        finally:
            self._links.discard(link)
            out.transport.abort()

    async def _pump(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        """Forward one direction until it ends. For a link this also ends the other direction; for a transfer it does
        not.
        """
        while True:
            if link.frames:
                frame = await read_frame(reader)
                if way == "down":
                    frame = await self._detours.redirect(frame)
                await self._hold_up(link)
                if link.swallowing not in {way, "both"}:
                    self._send(link, writer, frame)
            else:
                chunk = await reader.read(CHUNK)
                await self._hold_up(link)
                if not chunk:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                if link.swallowing not in {way, "both"}:
                    writer.write(chunk)
            await writer.drain()

    async def _hold_up(self, link: Link) -> None:
        while (left := link.stalled_until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.2))
        if time.monotonic() < self._until["delay"] and link.chance.random() < 0.4:
            self._count("delayed")
            await asyncio.sleep(link.chance.uniform(0.01, 0.6))

    def _send(self, link: Link, writer: asyncio.StreamWriter, frame: Frame) -> None:
        kind, now = frame.kind, time.monotonic()
        if kind == "command" and now < self._until["reorder"] and not link.held and link.chance.random() < 0.5:
            link.held.append(frame)
            self._loop.call_later(HELD_FOR, self._let_go, link, writer)
            return
        if link.held and (kind != "command" or frame.instance == link.held[0].instance):
            self._let_go(link, writer)
        elif link.held:
            self._count("reordered")
        self._write(link, writer, frame)

    def _let_go(self, link: Link, writer: asyncio.StreamWriter) -> None:
        held, link.held = link.held, []
        for frame in held:
            if not writer.transport.is_closing():
                self._write(link, writer, frame)

    def _write(self, link: Link, writer: asyncio.StreamWriter, frame: Frame) -> None:
        writer.write(frame.raw)
        if frame.kind in DOUBLED and time.monotonic() < self._until["double"] and link.chance.random() < 0.5:
            self._count("doubled")
            writer.write(frame.raw)
