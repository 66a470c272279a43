"""A web server on loopback that says what a test wants, for what is fetched from the web."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Gives each path to the test's own function."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        web: Web = self.server.web
        web.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.close_connection = True
        answer = web.answers.get(self.path.partition("?")[0])
        if answer is None:
            self.send_error(404)
            return
        try:
            answer(self)
        except OSError:
            return  # the client had enough

    def log_message(self, *arguments: object) -> None:
        """Be quiet."""

    def say(self, status: int, data: bytes = b"", **headers: str) -> None:
        """Send a whole answer."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if "Transfer-Encoding" not in given:
            given["Content-Length"] = str(len(data))
        self.send_response(status)
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@dataclass
class Web:
    """What is served at which path, and what was asked for."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def serve(self, path: str, data: bytes) -> str:
        """Serve bytes; returns their URL."""
        self.answers[path] = lambda handler: handler.say(200, data)
        return self.url(path)

    def redirect(self, path: str, target: str, status: int = 302) -> str:
        """Lead somewhere else; returns the URL."""
        self.answers[path] = lambda handler: handler.say(status, Location=target)
        return self.url(path)


@contextmanager
def web_server() -> Iterator[Web]:
    """Run a server while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    web = Web(server.server_address[1])
    server.web = web  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join(120)


def answers_of(*addresses: str) -> list[tuple[Any, ...]]:
    """What the resolver says about a name with these addresses."""
    families = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in addresses]
    return [(family, socket.SOCK_STREAM, 6, "", (each, 80)) for family, each in zip(families, addresses, strict=True)]
