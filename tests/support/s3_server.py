"""A small S3 server for the tests: path-style objects of one bucket in memory, and faults on demand."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET, ACCESS_KEY, SECRET_KEY = "backups", "key", "secret"
_AT = datetime(2026, 1, 1, tzinfo=UTC)


class S3Server(ThreadingHTTPServer):
    """``objects`` is what it has; ``faults``: the status of each of the next PUTs and GETs, 0 cuts the connection."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.faults: list[int] = []
        self.full = False
        self.room: int | None = None  # bytes of all objects
        self.unsigned = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away in these tests."""


@contextmanager
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: S3Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Nothing."""

    def _fails(self) -> bool:
        if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
            self.server.unsigned += 1
            self._answer(403, _error("AccessDenied"))
            return True
        if not self.server.faults:
            return False
        status = self.server.faults.pop(0)
        if status:
            self._answer(status, _error("InternalError"))
        else:
            self.close_connection = True
        return True

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").removeprefix("/")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._fails():
            return
        room, used = self.server.room, sum(map(len, self.server.objects.values()))
        if self.server.full or (room is not None and used + len(body) > room):
            self._answer(507, _error("XMinioStorageFull"))
            return
        self.server.objects[self._key] = body
        self._answer(200, b"", ETag=f'"{hashlib.md5(body).hexdigest()}"')  # noqa: S324 - as S3 does

    def do_GET(self) -> None:
        if self._fails():
            return
        if not self._key:
            self._list()
            return
        body = self.server.objects.get(self._key)
        if body is None:
            self._answer(404, _error("NoSuchKey"))
            return
        self._answer(200, body, ETag='"e"', **{"Last-Modified": _AT.strftime("%a, %d %b %Y %H:%M:%S GMT")})

    def do_POST(self) -> None:
        """Delete many."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self._fails():
            return
        keys = [unescape(key) for key in re.findall("<Key>(.*?)</Key>", body)]
        for key in keys:
            self.server.objects.pop(key, None)
        rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{rows}</DeleteResult>".encode())

    def _list(self) -> None:
        requested = parse_qs(urlsplit(self.path).query)
        prefix, delimiter = requested.get("prefix", [""])[0], requested.get("delimiter", [""])[0]
        rows, folders = [], set()
        for key, body in sorted(self.server.objects.items()):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            at = _AT.isoformat().replace("+00:00", ".000Z")
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><LastModified>{at}</LastModified>"
                '<ETag>"e"</ETag></Contents>'
            )
        rows += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)]
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
        self._answer(200, text.encode())

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
