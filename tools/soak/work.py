"""The work of the cloud during the run: each kind is repeated in its own thread."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections import Counter
from collections.abc import Callable

from tools.bench.cloud import ACTIVE_WITHIN, BenchError, Client, Cloud
from tools.bench.live import Page, Servers

UPLOAD = 256 * 1024
"""Bytes of one uploaded image."""
LOG_LINES = 20


class Work:
    """The kinds of work. ``done`` counts successful rounds by kind, ``failed`` failed ones; ``reasons`` has the last
    error of each kind.
    """

    def __init__(self, cloud: Cloud, pause: float) -> None:
        """``pause`` is the number of seconds between two rounds of a kind."""
        self._cloud, self._pause = cloud, pause
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        self._stop = threading.Event()
        kinds: dict[str, Callable[[Client], None]] = {
            "server": self._server,
            "log": self._console_log,
            "socket": self._socket,
            "page": self._page,
            "image": self._image,
        }
        self._threads = [threading.Thread(target=self._run, args=each, daemon=True) for each in kinds.items()]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait for the running rounds, and delete all remaining servers."""
        self._stop.set()
        for thread in self._threads:
            thread.join(ACTIVE_WITHIN)
        Client(self._cloud).delete_all()

    def _run(self, kind: str, work: Callable[[Client], None]) -> None:
        client: Client | None = None
        while not self._stop.is_set():
            try:
                client = client or Client(self._cloud)
                work(client)
                self.done[kind] += 1
            except (BenchError, OSError, http.client.HTTPException, ValueError) as error:
                client = None  # the next round signs in again: the token may have expired
                self.failed[kind] += 1
                self.reasons[kind] = f"{type(error).__name__}: {error}"[:300]
            self._stop.wait(self._pause)

    # ----- one round of each ------------------------------------------------------------------------------------------

    def _server(self, client: Client) -> None:
        """Launch, wait, restart and delete."""
        servers = Servers(self._cloud.port, client.token)
        try:
            server = client.launch("soak")
            if servers.end(server, ACTIVE_WITHIN) is None:
                raise BenchError(client.fault(server))
            client.call("POST", f"/compute/v2.1/servers/{server}/action", {"reboot": {"type": "HARD"}})
            self._until(lambda: client.call("GET", f"/compute/v2.1/servers/{server}")["server"]["status"] == "ACTIVE")
            client.call("DELETE", f"/compute/v2.1/servers/{server}")
            if servers.end(server, ACTIVE_WITHIN, state="deleted") is None:
                raise BenchError("a server is not deleted")
        finally:
            servers.close()

    def _console_log(self, client: Client) -> None:
        for server in client.call("GET", "/compute/v2.1/servers")["servers"]:
            try:
                client.call(
                    "POST",
                    f"/compute/v2.1/servers/{server['id']}/action",
                    {"os-getConsoleOutput": {"length": LOG_LINES}},
                )
            except BenchError as error:
                if not any(
                    f": {status} " in str(error) for status in (404, 409)
                ):  # it is being deleted, or does not exist yet
                    raise

    def _socket(self, client: Client) -> None:
        """Follow the project's events for a moment, like a script."""
        servers = Servers(self._cloud.port, client.token)
        self._stop.wait(self._pause)
        servers.close()

    def _page(self, _client: Client) -> None:
        """Sign in like a browser, keep the page with the servers open for a while, and close it."""
        page = Page(self._cloud.port, "demo", self._cloud.password("demo"))
        self._stop.wait(5 * self._pause)
        page.close()

    def _image(self, client: Client) -> None:
        """Upload an image and delete it."""
        image = client.call(
            "POST", "/image/v2/images", {"name": "soak", "disk_format": "raw", "container_format": "bare"}
        )["id"]
        connection = http.client.HTTPConnection("127.0.0.1", self._cloud.port, timeout=60)
        headers = {"X-Auth-Token": client.token, "Content-Type": "application/octet-stream"}
        try:
            connection.request("PUT", f"/image/v2/images/{image}/file", os.urandom(UPLOAD), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        client.call("DELETE", f"/image/v2/images/{image}")
        if answer.status != http.HTTPStatus.NO_CONTENT:
            raise BenchError(f"the upload: {answer.status} {text[:200]!r}")

    def _until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ACTIVE_WITHIN
        while not reached():
            if time.monotonic() > deadline:
                raise BenchError("a server does not come back")
            time.sleep(0.2)
