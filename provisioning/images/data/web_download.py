"""Downloads a file for an import, with limits of time and size, constant memory, and from external addresses only.

A name is resolved once and the connection uses that address, so that a later DNS answer has no effect. A redirect is
checked like a new URL. No proxy and no credentials are used.

An interrupted download is resumed (RFC 9110, 13.1.5 and 14.2) if the server has sent a version of the file and accepts
ranges. Each new connection is checked like the first.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from django.conf import settings

from provisioning.common.values.transfers import seconds_for
from provisioning.images.data.web_address import Address, WebAddress, read_uri, resolve
from provisioning.images.errors import DownloadError

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
PIECE = 256 << 10
MOST_REDIRECTS = 5
MOST_ADDRESSES = 8
"""Maximum number of addresses of one name to try: hundreds of addresses without an answer would block a worker."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes that may change on a retry."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each attempt to resume an interrupted download."""
ENOUGH = 1 << 20
"""Number of received bytes after which the attempts are counted from zero again."""

logger = logging.getLogger(__name__)


class BrokenDownloadError(DownloadError):
    """The connection or the server failed; a retry may succeed."""


@dataclass
class WebFile:
    """A remote file that can be read once. ``connection`` closes all its resources."""

    uri: str
    shown: str
    response: http.client.HTTPResponse
    watch: Watch
    connection: contextlib.ExitStack

    def __post_init__(self) -> None:
        self.total = self.response.length
        """Bytes; None if the server does not specify the size."""
        self._version = _version(self.response)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the data as it arrives, resuming after interruptions. Raises DownloadError if it is incomplete or too
        slow.
        """
        size = came = attempts = 0
        while True:
            try:
                if came:
                    self._request_rest(came)
                for piece in self._pieces():
                    size += len(piece)
                    self.watch.came(size)
                    yield piece
                self._check_end(size)
            except BrokenDownloadError:
                attempts = 0 if size - came >= ENOUGH else attempts
                came = size
                if not (came and self.total and self._version) or attempts == len(PAUSES):
                    raise
            else:
                return
            self.connection.close()
            self.watch.check(self.shown)
            time.sleep(PAUSES[attempts])
            attempts += 1

    def _pieces(self) -> Iterator[bytes]:
        with _explained(self.shown, self.watch):
            while piece := self.response.read1(PIECE):
                yield piece
            self.watch.check(self.shown)

    def _check_end(self, size: int) -> None:
        if self.total is not None and size != self.total:
            raise BrokenDownloadError(f"The download of {self.shown} broke off after {size} of {self.total} bytes.")

    def _request_rest(self, size: int) -> None:
        """Request the rest of the file. Raises DownloadError if the server sends the whole file or another version."""
        self.connection.close()
        headers = {"Range": f"bytes={size}-", "If-Range": self._version}
        _, self.response = _open(self.uri, self.watch, self.connection, headers)
        status, place = self.response.status, self.response.headers.get("Content-Range", "")
        if status != http.HTTPStatus.PARTIAL_CONTENT or place != f"bytes {size}-{(self.total or 0) - 1}/{self.total}":
            unable = status in PASSING
            text = (
                f"The download of {self.shown} broke off after {size} of {self.total} bytes, and could not be resumed."
            )
            raise BrokenDownloadError(text) if unable else DownloadError(text)
        logger.info("Resuming the download of %s at byte %d.", self.shown, size)


def _version(response: http.client.HTTPResponse) -> str:
    """Return the validator that identifies this version of the file.

    This is a strong ETag, otherwise the modification time; "" if the server sends neither.
    """
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


class Watch:
    """Closes a connection at its deadline, however slowly data arrives. Fast transfers extend the deadline."""

    def __init__(self, seconds: float, *, secure: bool = False) -> None:
        self._seconds = seconds
        self.secure = secure
        """Whether only https is allowed."""
        self._began = time.monotonic()
        self._end = self._began + seconds
        self._timer: threading.Timer | None = None
        self._over = threading.Event()

    @contextlib.contextmanager
    def over(self, connection: socket.socket) -> Iterator[None]:
        """Watch a connection during the block."""
        self._over.clear()
        self._wait(connection)
        try:
            yield
        finally:
            self._over.set()
            if self._timer is not None:
                self._timer.cancel()

    def came(self, size: int) -> None:
        """Report the total number of bytes received so far, which may extend the deadline."""
        self._end = self._began + seconds_for(self._seconds, size)

    def _wait(self, connection: socket.socket) -> None:
        """Close the connection if the deadline has passed; otherwise check again at the deadline."""
        left = self._end - time.monotonic()
        if self._over.is_set():
            return
        if left <= 0 and self._timer is not None:
            _cut(connection)
            return
        self._timer = threading.Timer(max(left, 0), self._wait, [connection])
        self._timer.daemon = True
        self._timer.start()

    def check(self, shown: str) -> None:
        """Raise DownloadError if the deadline has passed."""
        if time.monotonic() >= self._end:
            text = f"The download of {shown} took longer than {self._seconds:.0f} seconds and was too slow."
            raise DownloadError(text)


@contextlib.contextmanager
def web_file(uri: str, *, seconds: float | None = None, secure: bool = False) -> Iterator[WebFile]:
    """Open the file at a URL during the block, after at most five redirects.

    ``seconds``: the timeout, default ``IMPORT_TIMEOUT``. ``secure``: only https, also after redirects. Raises
    ImportUriError if a URL or the address of its host is not allowed, DownloadError if the download fails.
    """
    watch = Watch(settings.IMPORT_TIMEOUT if seconds is None else seconds, secure=secure)
    with contextlib.ExitStack() as connection:
        shown, response = _open(uri, watch, connection)
        if response.status != http.HTTPStatus.OK:
            raise DownloadError(f"{shown} answers with HTTP {response.status}.")
        logger.info("Downloading %s.", shown)
        yield WebFile(uri, shown, response, watch, connection)


def _open(
    uri: str, watch: Watch, connection: contextlib.ExitStack, headers: Mapping[str, str] | None = None
) -> tuple[str, http.client.HTTPResponse]:
    """Follow redirects; return the last URL without its query, and the response, which ``connection`` closes."""
    for _ in range(MOST_REDIRECTS + 1):
        address = read_uri(uri)
        if watch.secure and address.scheme != "https":
            raise DownloadError(f"{address.shown} is not an https address.")
        with contextlib.ExitStack() as stack:
            with _explained(address.shown, watch):
                response = _ask(address, watch, stack, headers or {})
            if response.status in REDIRECTS:
                uri = urljoin(address.url, response.headers.get("Location", ""))
                continue
            connection.push(stack.pop_all())
            return address.shown, response
    raise DownloadError(f"{address.shown} redirects more than {MOST_REDIRECTS} times.")


def _ask(
    address: WebAddress, watch: Watch, stack: contextlib.ExitStack, headers: Mapping[str, str]
) -> http.client.HTTPResponse:
    """Connect, send the request and return the response. Closing ``stack`` closes all resources."""
    connected = stack.enter_context(_connect(address, resolve(address), watch))
    if address.scheme == "https":
        # The handshake comes after the watch has started.
        connected = _trust().wrap_socket(connected, server_hostname=address.host, do_handshake_on_connect=False)
        stack.enter_context(connected)
    stack.enter_context(watch.over(connected))
    connected.settimeout(READ_TIMEOUT)
    if isinstance(connected, ssl.SSLSocket):
        connected.do_handshake()
    connection = http.client.HTTPConnection(address.host, address.port)
    connection.sock, connection.auto_open = connected, 0
    connection.putrequest("GET", address.target, skip_host=True, skip_accept_encoding=True)
    for name, value in (("Host", address.authority), ("Accept-Encoding", "identity"), ("Connection", "close")):
        connection.putheader(name, value)
    for name, value in ({"User-Agent": "Novella"} | dict(headers)).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    stack.callback(response.close)
    return response


def _connect(address: WebAddress, addresses: list[Address], watch: Watch) -> socket.socket:
    """Connect to the first of ``MOST_ADDRESSES`` addresses that accepts. Raises DownloadError if none does in time."""
    for each in addresses[:MOST_ADDRESSES]:
        watch.check(address.shown)
        with contextlib.suppress(OSError):
            return socket.create_connection((str(each), address.port), CONNECT_TIMEOUT)
    raise BrokenDownloadError(f"The host of {address.shown} cannot be reached.")


@functools.cache
def _trust() -> ssl.SSLContext:
    """Return a context with the trusted certificates of this machine."""
    return ssl.create_default_context()


@contextlib.contextmanager
def _explained(shown: str, watch: Watch) -> Iterator[None]:
    """Convert errors of the transfer to messages for users, without the URL's query."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise DownloadError(f"The certificate of {shown} is not valid: {error.verify_message}.") from None
    except TimeoutError:
        watch.check(shown)
        raise BrokenDownloadError(f"{shown} sent nothing for {READ_TIMEOUT:.0f} seconds.") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        watch.check(shown)
        logger.info("The download of %s failed: %s", shown, type(error).__name__)
        text = f"The download of {shown} failed: the connection was interrupted or the response is not HTTP."
        raise BrokenDownloadError(text) from None


def _cut(connection: socket.socket) -> None:
    """Shut down a connection while another thread reads from it; for TLS, the underlying connection."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
