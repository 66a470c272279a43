"""The metadata service: HTTP on sockets in the networks' own namespaces.

A guest is identified by the network of the socket and the source address of the request; the filters of this host
prevent spoofing. Guests are not trusted: the number of connections of each guest is limited, over all its addresses and
interfaces, and each connection may take a few seconds. One thread reads requests and writes responses, so that workers
never wait for a guest.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import io
import logging
import re
import secrets
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from compute_agent.guest_trees import PASSWORD, Asker, find

log = logging.getLogger(__name__)

T = TypeVar("T")

WORKERS = 16
"""Limit of requests that are processed at the same time."""
WAITING = 256
"""Limit of all guests' connections."""
SHARE = 4
"""Limit of one guest's connections."""
SECONDS = 10.0
"""Timeout of a connection, from its beginning until the response is read."""
MOST_HEAD = 1 << 14
"""Limit of a request's line and headers, in bytes."""
MOST_PASSWORD = 1024
"""Limit of a posted password, in bytes, as in Nova."""
TOKEN, TTL = "X-aws-ec2-metadata-token", "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_PATH = ["latest", "api", "token"]
LENGTH = re.compile(rb"^content-length:[ \t]*([0-9]{1,9})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)

MOST_SECONDS = 21_600
_END = struct.Struct("!d")


class Tokens:
    """Creates and verifies session tokens, as in EC2's version 2.

    An attacker may cause a program in the guest to send a request to a chosen address (SSRF). Such a request cannot
    read metadata, because it has neither the method ``PUT`` nor custom headers. Tokens are not stored: they contain
    their expiry time and a signature. The signing key exists only as long as the service runs.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def make(self, uuid: str, seconds: int) -> str:
        """Return a token with which this guest can read its metadata for ``seconds`` seconds."""
        end = _END.pack(self._clock() + seconds)
        return base64.urlsafe_b64encode(end + self._signature(uuid, end)).decode()

    def is_good(self, uuid: str, token: str) -> bool:
        """Return whether a token was issued to this guest, and has not expired."""
        try:
            decoded = base64.b64decode(token, altchars=b"-_", validate=True)
        except ValueError:
            return False
        end, signature = decoded[: _END.size], decoded[_END.size :]
        if not hmac.compare_digest(signature, self._signature(uuid, end)):
            return False
        return self._clock() < float(_END.unpack(end)[0])

    def _signature(self, uuid: str, end: bytes) -> bytes:
        return hmac.new(self._key, uuid.encode() + end, hashlib.sha256).digest()


def read_ttl(text: str | None) -> int | None:
    """Return the requested lifetime in seconds; None if it is invalid."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 5:
        return None
    return int(text) if 1 <= int(text) <= MOST_SECONDS else None


class Directory(Protocol):
    """Finds guests; called from any thread."""

    def guest(self, network_id: str, address: str) -> str | None:
        """Return the id of the guest with the address on the network, without blocking; None if there is none."""

    def asker(self, network_id: str, address: str) -> Asker | None:
        """Return the guest with the address on the network; None if this host has no such guest."""

    def post_password(self, asker: Asker, password: str) -> bool:
        """Store the password that a guest has encrypted. Return False if one is stored already."""


class MetadataService:
    """Serves metadata on all sockets passed to ``opened``, until they are removed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Held while networks are added and removed; never in the thread that reads and writes."""
        self._waiting: dict[str, list[socket.socket]] = {}
        """Listening sockets by network, before the start."""
        self._servers: dict[str, list[asyncio.Server]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: _Connections | None = None

    def start(self, directory: Directory) -> None:
        """Start serving, also sockets that ``opened`` passed earlier; their clients waited in the listen queue."""
        with self._lock:
            self._loop = asyncio.new_event_loop()
            self._connections = _Connections(directory)
            threading.Thread(target=_run, args=(self._loop,), name="metadata", daemon=True).start()
            while self._waiting:
                self._serve(*self._waiting.popitem())

    def opened(self, network_id: str, listening: Sequence[socket.socket]) -> None:
        """Use these listening sockets of a network instead of older ones. The service owns and closes them."""
        with self._lock:
            self._stop(network_id)
            self._serve(network_id, listening)

    def closed(self, network_id: str) -> None:
        """Stop listening on the network; requests in progress are completed."""
        with self._lock:
            self._stop(network_id)

    def close(self) -> None:
        """Close the sockets and end the threads."""
        with self._lock:
            for network_id in [*self._waiting, *self._servers]:
                self._stop(network_id)
            loop, connections, self._loop = self._loop, self._connections, None
            if loop is not None and connections is not None:
                with contextlib.suppress(TimeoutError):
                    _do(loop, connections.end(), timeout=2.0)
                loop.call_soon_threadsafe(loop.stop)

    def _serve(self, network_id: str, listening: Sequence[socket.socket]) -> None:
        if self._loop is None or self._connections is None:
            self._waiting[network_id] = list(listening)
        else:
            self._servers[network_id] = _do(self._loop, self._connections.listen(network_id, listening))

    def _stop(self, network_id: str) -> None:
        for each in self._waiting.pop(network_id, ()):
            each.close()
        servers = self._servers.pop(network_id, ())
        if self._loop is not None and servers:
            _do(self._loop, _close(servers))


def _do(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result(timeout)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _close(servers: Sequence[asyncio.Server]) -> None:
    for each in servers:
        each.close()


class _Connections:
    """The guests' connections; all methods run in the service's thread."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._shares: Counter[str] = Counter()
        """Number of open connections of each guest."""
        self._tokens = Tokens()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="metadata")

    async def listen(self, network_id: str, listening: Sequence[socket.socket]) -> list[asyncio.Server]:
        """Accept connections on these sockets of a network."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._accept(network_id, reader, writer)

        return [await asyncio.start_server(accept, sock=each, limit=MOST_HEAD) for each in listening]

    async def end(self) -> None:
        """Abort all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _accept(self, network_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        address = str(peer[0]).partition("%")[0] if peer else ""
        # All unknown addresses of a network share one limit, because they may be forged.
        guest = self._directory.guest(network_id, address) or network_id
        if len(self._tasks) >= WAITING or self._shares[guest] >= SHARE:
            writer.transport.abort()
            return
        self._shares[guest] += 1
        task = asyncio.get_running_loop().create_task(self._answer(network_id, address, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._over(task, guest))

    def _over(self, task: "asyncio.Task[None]", guest: str) -> None:
        self._tasks.discard(task)
        self._shares[guest] -= 1
        if not self._shares[guest]:
            del self._shares[guest]

    async def _answer(
        self, network_id: str, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Read one request, let a worker process it, and wait until the response is sent."""
        try:
            async with asyncio.timeout(SECONDS):
                request = await _read(reader)
                loop = asyncio.get_running_loop()
                answer, hops = await loop.run_in_executor(
                    self._pool, _answer_to, request, network_id, address, self._directory, self._tokens
                )
                if hops is not None:
                    _set_hops(writer.get_extra_info("socket"), hops)
                writer.write(answer)
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the guest disconnected, timed out, or sent too much
        except Exception:
            log.exception("A guest's request for its metadata could not be answered.")
        finally:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return a request. Its body is read only if it is short enough to be a password."""
    head = await reader.readuntil(b"\r\n\r\n")
    match = LENGTH.search(head)
    length = int(match[1]) if match is not None else 0
    return head + (await reader.readexactly(length) if length <= MOST_PASSWORD else b"")


def _answer_to(
    request: bytes, network_id: str, address: str, directory: Directory, tokens: Tokens
) -> tuple[bytes, int | None]:
    """Return the response and its hop limit; None: no limit."""
    made = _Request(request, network_id, address, directory, tokens)
    return made.written.getvalue(), made.hops


def _set_hops(connection: socket.socket, hops: int) -> None:
    """Set the hop limit of the response. With one hop, a container in the guest cannot receive a token."""
    if connection.family == socket.AF_INET6:
        connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
    else:
        connection.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)


class _Request(BaseHTTPRequestHandler):
    """One request. The constructor processes the request and stores the response in ``written``."""

    protocol_version = "HTTP/1.1"
    server_version = "Novella"
    sys_version = ""

    def __init__(self, request: bytes, network_id: str, address: str, directory: Directory, tokens: Tokens) -> None:
        self._directory, self._network_id, self._tokens = directory, network_id, tokens
        self.hops: int | None = None
        self._ttl: int | None = None
        self._read, self.written = io.BytesIO(request), io.BytesIO()
        super().__init__(request, (address, 0), None)  # type: ignore[arg-type]

    def setup(self) -> None:
        self.rfile, self.wfile = self._read, self.written

    def finish(self) -> None:
        """Do nothing: no file or connection has to be closed."""

    def do_GET(self) -> None:
        asker = self._reader()
        if asker is not None:
            content = find(asker, self._path())
            self._answer(200 if content is not None else 404, content if content is not None else b"Not Found\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        asker = self._reader()
        if asker is None:
            return
        path = self._path()
        if len(path) != 3 or path[0] != "openstack" or path[2] != PASSWORD or find(asker, path) is None:
            self._answer(404, b"Not Found\n")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MOST_PASSWORD:
            self._answer(400, b"The password has at most 1024 bytes, and Content-Length is required.\n")
            return
        password = self.rfile.read(int(length)).decode("ascii", "replace")
        posted = self._directory.post_password(asker, password)
        self._answer(200 if posted else 409, b"" if posted else b"There is a password already.\n")

    def do_PUT(self) -> None:
        if self._path() != TOKEN_PATH:
            self.do_DELETE()
            return
        asker = self._asker()
        if asker is None:
            return
        self._ttl = read_ttl(self.headers.get(TTL))
        if self._ttl is None:
            self._answer(400, b"The lifetime of a token is from 1 to 21600 seconds.\n")
            return
        self.hops = asker.spec.metadata_hops
        self._answer(200, self._tokens.make(asker.spec.uuid, self._ttl).encode())

    def do_DELETE(self) -> None:
        self._answer(405, b"Metadata is read with GET.\n")

    def _reader(self) -> Asker | None:
        """Return the guest if it may read metadata: with a valid token, or without a token if none is required."""
        asker = self._asker()
        if asker is None:
            return None
        token = self.headers.get(TOKEN)
        if token is None and not asker.spec.metadata_token:
            return asker
        if token is not None and self._tokens.is_good(asker.spec.uuid, token):
            return asker
        self._answer(401, b"A token is required: PUT /latest/api/token\n")
        return None

    def _asker(self) -> Asker | None:
        """Return the guest. A request with the header ``X-Forwarded-For`` is rejected, because the guest could forge
        it.
        """
        asker = None
        if "X-Forwarded-For" not in self.headers:
            asker = self._directory.asker(self._network_id, self.client_address[0])
        if asker is None:
            self._answer(404, b"Not Found\n")
        return asker

    def _path(self) -> list[str]:
        return [unquote(part) for part in urlsplit(self.path).path.split("/") if part]

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        path = self._path()
        kind = "application/json" if path and path[-1].endswith(".json") and status == 200 else "text/plain"
        self.send_header("Content-Type", f"{kind}; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        if self._ttl is not None:
            self.send_header(TTL, str(self._ttl))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Do not log requests: guests send many, with arbitrary content."""
