"""The metadata service: HTTP on sockets that lie in the networks' own namespaces.

Who asks is known by the network that the socket lies in and the address that the request comes from; the filters of
this host let no guest use another's.  Guests are hostile: each has a share of the connections, and each connection a
few seconds.
"""

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from compute_agent.metadata.trees import PASSWORD, Asker, find

log = logging.getLogger(__name__)

WORKERS = 16
"""Requests that are answered at once."""
WAITING = 64
"""Connections of all guests at once."""
SHARE = 4
"""Connections of one guest at once."""
SECONDS = 10.0
"""A connection's whole time."""
MOST_PASSWORD = 1024
"""Bytes of a posted password, as in Nova."""


class Directory(Protocol):
    """Who guests are; called from any thread."""

    def asker(self, network_id: str, address: str) -> Asker | None:
        """Return the guest that has the address on the network; None when there is none here."""

    def post_password(self, asker: Asker, password: str) -> bool:
        """Keep the password that a guest has encrypted; False when there is one already."""


@dataclass
class _Connection:
    socket: socket.socket
    network_id: str
    address: str
    since: float


class MetadataService:
    """Answers on every socket it is given until that is taken away."""

    def __init__(self) -> None:
        self._directory: Directory | None = None
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[str, list[socket.socket]] = {}
        self._connections: set[int] = set()
        self._open: dict[int, _Connection] = {}
        self._shares: Counter[tuple[str, str]] = Counter()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="metadata")
        self._ended = threading.Event()
        self._waker, woken = socket.socketpair()
        self._woken = woken
        self._selector.register(woken, selectors.EVENT_READ, None)
        self._thread: threading.Thread | None = None

    def start(self, directory: Directory) -> None:
        """Begin to answer: connections of before have waited."""
        self._directory = directory
        self._thread = threading.Thread(target=self._accept_forever, name="metadata", daemon=True)
        self._thread.start()

    def opened(self, network_id: str, listening: Sequence[socket.socket]) -> None:
        """Take a network's listening sockets, which are the service's own now; they take the place of older ones."""
        self.closed(network_id)
        with self._lock:
            self._sockets[network_id] = list(listening)
            for each in listening:
                each.settimeout(0)
                self._selector.register(each, selectors.EVENT_READ, network_id)

    def closed(self, network_id: str) -> None:
        """Listen on the network no more; what is being answered goes on."""
        with self._lock:
            for each in self._sockets.pop(network_id, ()):
                self._selector.unregister(each)
                each.close()

    def close(self) -> None:
        """End."""
        self._ended.set()
        self._waker.close()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        for network_id in list(self._sockets):
            self.closed(network_id)
        self._end_older_than(0.0)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _accept_forever(self) -> None:
        while not self._ended.is_set():
            # The lock is not held while it waits: networks come and go meanwhile.
            for key, _ in self._selector.select(timeout=0.5):
                if isinstance(key.fileobj, socket.socket) and key.data is not None:
                    self._accept(key.fileobj, str(key.data))
            self._end_older_than(SECONDS)
        self._woken.close()

    def _accept(self, listening: socket.socket, network_id: str) -> None:
        try:
            connected, peer = listening.accept()
        except OSError:
            return
        address = str(peer[0]).partition("%")[0]
        connection = _Connection(connected, network_id, address, time.monotonic())
        with self._lock:
            full = len(self._open) >= WAITING or self._shares[network_id, address] >= SHARE
            if not full:
                self._shares[network_id, address] += 1
                self._open[id(connection)] = connection
        if full:
            connected.close()
            return
        connected.settimeout(SECONDS)
        self._pool.submit(self._serve, connection)

    def _serve(self, connection: _Connection) -> None:
        try:
            _Request(connection, self._directory)
        except OSError:
            pass  # the guest has gone, or its time is over
        except Exception:
            log.exception("A guest's request for its metadata could not be answered.")
        finally:
            with self._lock:
                self._open.pop(id(connection), None)
                self._shares[connection.network_id, connection.address] -= 1
            connection.socket.close()

    def _end_older_than(self, seconds: float) -> None:
        now = time.monotonic()
        with self._lock:
            old = [each for each in self._open.values() if now - each.since >= seconds]
        for each in old:
            with contextlib.suppress(OSError):
                each.socket.shutdown(socket.SHUT_RDWR)


class _Request(BaseHTTPRequestHandler):
    """One connection; it is answered by being made."""

    protocol_version = "HTTP/1.1"
    server_version = "Novella"
    sys_version = ""

    def __init__(self, connection: _Connection, directory: Directory | None) -> None:
        self._directory, self._network_id = directory, connection.network_id
        super().__init__(connection.socket, (connection.address, 0), None)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        asker = self._asker()
        if asker is not None:
            found = find(asker, self._path())
            self._answer(200 if found is not None else 404, found if found is not None else b"Not Found\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        asker = self._asker()
        if asker is None:
            return
        path = self._path()
        if len(path) != 3 or path[0] != "openstack" or path[2] != PASSWORD or find(asker, path) is None:
            self._answer(404, b"Not Found\n")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MOST_PASSWORD:
            self._answer(400, b"The password has at most 1024 bytes, and its length is said.\n")
            return
        password = self.rfile.read(int(length)).decode("ascii", "replace")
        posted = self._directory is not None and self._directory.post_password(asker, password)
        self._answer(200 if posted else 409, b"" if posted else b"There is a password already.\n")

    def do_PUT(self) -> None:
        self._answer(405, b"Metadata is read with GET.\n")

    def do_DELETE(self) -> None:
        self.do_PUT()

    def _asker(self) -> Asker | None:
        """Return who asks.  A proxy's header would be the guest's own word, so such a request is refused."""
        found = None
        if self._directory is not None and "X-Forwarded-For" not in self.headers:
            found = self._directory.asker(self._network_id, self.client_address[0])
        if found is None:
            self._answer(404, b"Not Found\n")
        return found

    def _path(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.path).path.split("/") if part]

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        path = self._path()
        kind = "application/json" if path and path[-1].endswith(".json") and status == 200 else "text/plain"
        self.send_header("Content-Type", f"{kind}; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Guests ask often, and write what they want."""
