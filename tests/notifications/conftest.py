"""A webhook on loopback, and a cloud to notify of."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from provisioning.common.context import RequestContext
from provisioning.events.models import Event
from tests.support.clouds import Cloud, context
from tests.support.standing import derived, standing


@dataclass
class Received:
    """One request that came."""

    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.body)
        return result


@dataclass
class Receiver:
    """A webhook: what came, and what it answers."""

    url: str
    came: list[Received] = field(default_factory=list)
    answer: Callable[[Received], int] = lambda _: 204

    @property
    def types(self) -> list[str]:
        return [each.message["event_type"] for each in self.came]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Received(dict(self.headers.items()), body)
            result.came.append(request)
            status = result.answer(request)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{result.url}elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    result = Receiver(f"http://127.0.0.1:{server.server_port}/hook?key=1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield result
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def webhook(receiver: Receiver, settings: Any) -> Receiver:
    """The receiver as the cloud's webhook."""
    settings.NOTIFICATION_WEBHOOK = receiver.url
    settings.NOTIFICATION_WEBHOOK_SECRET = "between us"
    settings.NOTIFICATION_WEBHOOK_TIMEOUT = 60
    return receiver


@pytest.fixture
@derived
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    return Cloud.make()


def notices(prefix: str = "instance.") -> list[dict[str, Any]]:
    """The notifications in the event log, in order."""
    rows = Event.objects.filter(topic="notifications", kind__startswith=prefix).order_by("id")
    return list(rows.values_list("payload", flat=True))


def types(prefix: str = "instance.") -> list[str]:
    return [message["event_type"] for message in notices(prefix)]


def data(message: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = message["payload"]["nova_object.data"]
    return result
