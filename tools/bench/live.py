"""The WebSockets that the benchmark follows: a script's socket for states of servers, and a page's socket for pushed
HTML.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import socket
import statistics
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from provisioning.events.wake import short_path
from tools.bench.cloud import ACTIVE_WITHIN, BenchError, Client, Cloud

END = b"end"
OPEN_WITHIN = 10.0
PUSHED_WITHIN = 10.0


class Socket:
    """A WebSocket that is read in its own thread; each message is passed on with its arrival time."""

    def __init__(self, url: str, headers: dict[str, str], take: Callable[[dict[str, Any], float], None]) -> None:
        self._take = take
        self._socket: ClientConnection = connect(
            url, additional_headers=headers, open_timeout=OPEN_WITHIN, max_size=None, compression=None
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for text in self._socket:
                arrived = time.time()
                self._take(json.loads(text), arrived)
        except ConnectionClosed:
            pass

    def close(self) -> None:
        self._socket.close()
        self._thread.join(OPEN_WITHIN)


class Servers:
    """The states of a project's servers as pushed by the cloud: polling would slow down the measured work."""

    def __init__(self, port: int, token: str) -> None:
        self._ends: dict[str, tuple[str, float]] = {}
        self._changed = threading.Condition()
        self._socket = Socket(f"ws://127.0.0.1:{port}/ws/v1/events", {"X-Auth-Token": token}, self._take)

    def _take(self, message: dict[str, Any], arrived: float) -> None:
        state = message.get("payload", {}).get("vm_state")
        if state not in {"active", "error", "deleted"} or message["payload"].get("task_state"):
            return
        with self._changed:
            server = message["payload"]["id"]
            if self._ends.get(server, ("", 0.0))[0] != state:
                self._ends[server] = (state, arrived)
            self._changed.notify_all()

    def end(self, server: str, within: float, *, state: str = "active") -> float | None:
        """Return the Unix time at which the server was reported in ``state``; None if it is reported in ERROR or
        ``within`` seconds have passed.
        """
        with self._changed:
            reached = {state, "error"}
            self._changed.wait_for(lambda: self._ends.get(server, ("", 0.0))[0] in reached, within)
            found, moment = self._ends.get(server, ("", 0.0))
        return moment if found == state else None

    def close(self) -> None:
        self._socket.close()


class Commits:
    """The times at which events were committed. The committing process sends a datagram to every socket in a folder of
    the cloud. A socket in this folder receives the datagrams, and after each the newest event is read.
    """

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._moments: list[tuple[int, float]] = []
        """(number of the newest event, Unix time), in their order."""
        self._newest = max((number for number, _ in cloud.events(0)), default=0)
        self._path = cloud.portal / "run/wake" / f"{os.getpid()}-bench.events"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with short_path(self._path.parent) as short:
            self._socket.bind(f"{short}/{self._path.name}")
        self._path.chmod(0o666)  # the cloud's processes have another account
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._socket.recv(16) != END:
            moment = time.time()
            self._newest = max((number for number, _ in self._cloud.events(self._newest)), default=self._newest)
            self._moments.append((self._newest, moment))

    def of(self, number: int) -> float | None:
        """Return the Unix time at which the event was committed."""
        return next((moment for newest, moment in self._moments if newest >= number), None)

    def close(self) -> None:
        with short_path(self._path.parent) as short:
            self._socket.sendto(END, f"{short}/{self._path.name}")
        self._thread.join(OPEN_WITHIN)
        self._socket.close()
        self._path.unlink()


class Page:
    """An open page of a signed-in browser; records the arrival time of each event."""

    def __init__(self, port: int, user: str, password: str, page: str = "instances") -> None:
        self.frames: list[tuple[int, float]] = []
        """(number of the newest event shown, Unix time of arrival), for each frame with elements of the page."""
        cookies = _sign_in(f"http://127.0.0.1:{port}", user, password)
        headers = {"Cookie": cookies, "Origin": f"http://127.0.0.1:{port}"}
        self._socket = Socket(f"ws://127.0.0.1:{port}/ws/dashboard?page={page}", headers, self._take)

    def _take(self, message: dict[str, Any], arrived: float) -> None:
        if message.get("html"):
            self.frames.append((message["id"], arrived))

    def close(self) -> None:
        self._socket.close()


def _sign_in(site: str, user: str, password: str) -> str:
    """Sign in with the form like a user; return the ``Cookie`` header of the session."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    with browser.open(f"{site}/auth/login/", timeout=OPEN_WITHIN) as answer:
        form = answer.read().decode()
    field = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    values = {"user_name": user, "password": password, "csrfmiddlewaretoken": field[1] if field else ""}
    with browser.open(f"{site}/auth/login/", urllib.parse.urlencode(values).encode(), OPEN_WITHIN) as answer:
        answer.read()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def active(client: Client, servers: Servers, server: str) -> float:
    """Return the Unix time at which the server became active."""
    moment = servers.end(server, ACTIVE_WITHIN)
    if moment is None:
        raise BenchError(client.fault(server))
    return moment


def push_delays(cloud: Cloud, count: int) -> list[float]:
    """Return the seconds from the commit of each event to the arrival of its frame on an open page, while servers are
    launched.
    """
    client = Client(cloud)
    commits = Commits(cloud)
    page = Page(cloud.port, "demo", cloud.password("demo"))
    servers = Servers(cloud.port, client.token)
    first = max((number for number, _ in cloud.events(0)), default=0)
    for number in range(count):
        active(client, servers, client.launch(f"pushed-{number}"))
    written = cloud.events(first)
    deadline = time.monotonic() + PUSHED_WITHIN
    while written and not any(shown >= written[-1][0] for shown, _ in page.frames) and time.monotonic() < deadline:
        time.sleep(0.05)
    page.close()
    servers.close()
    commits.close()
    client.delete_all()
    delays = []
    for number, _ in written:
        arrived = next((arrived for shown, arrived in page.frames if shown >= number), None)
        committed = commits.of(number)
        if arrived is None or committed is None:
            raise BenchError(f"event {number} never reached the page")
        delays.append(arrived - committed)
    if not delays:
        raise BenchError("no events were written")
    return delays


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def spread(values: list[float]) -> str:
    """Return the median and the 95th percentile as text."""
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return f"median {ms(statistics.median(ordered))}, p95 {ms(p95)} (n={len(ordered)})"
