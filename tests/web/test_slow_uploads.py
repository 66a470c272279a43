"""Uploads that do not move: they hold up nobody else, and not for ever."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from pytest_django import Settings

from portal.web import streams
from portal.web.streams import BodyInterruptedError, Exchange
from provisioning.common.machine.machine_shares import shares
from provisioning.images import services as images
from provisioning.images.models import Image
from tests.jobs.conftest import eventually
from tests.support.cast import People, Person, context_of
from tests.web.conftest import Serve

WITHIN = 120
"""Seconds for an answer; a request that finds no connection in the pool is refused before."""


class Member:
    """Somebody who uploads."""

    def __init__(self, port: int, person: Person) -> None:
        self.port, self.token = port, person.token
        self.context = context_of(person.user, person.project)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN)
        connection.request(method, path, body, {"X-Auth-Token": self.token, **headers})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def image(self) -> Image:
        return images.create(self.context, name="slow", disk_format="raw", container_format="bare")

    def upload(self, data: bytes) -> http.client.HTTPResponse:
        path = f"/image/v2/images/{self.image().id}/file"
        return self.ask("PUT", path, data, **{"Content-Type": "application/octet-stream"})

    def stall(self) -> tuple[Image, socket.socket]:
        """Begin an upload that does not go on."""
        image = self.image()
        client = socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN)
        client.sendall(
            f"PUT /image/v2/images/{image.id}/file HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"X-Auth-Token: {self.token}\r\nContent-Type: application/octet-stream\r\n"
            "Content-Length: 100000000\r\n\r\nx".encode()
        )
        return image, client


@pytest.fixture
def stalled() -> Iterator[Callable[[Member, int], list[socket.socket]]]:
    """Begin so many uploads of a member, and wait until all are being taken."""
    with ExitStack() as clients:

        def begin(member: Member, count: int) -> list[socket.socket]:
            begun = [member.stall() for _ in range(count)]
            sockets = [clients.enter_context(client) for _, client in begun]
            saving = Image.objects.filter(id__in=[image.id for image, _ in begun], status=Image.Status.SAVING)
            eventually(lambda: saving.count() == count, "the uploads are being taken")
            return sockets

        yield begin


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.deep
def test_more_slow_uploads_than_connections_hold_up_nobody(
    serve: Serve, people: People, database: str, stalled: Callable[[Member, int], list[socket.socket]]
) -> None:
    port = serve(NOVELLA_DATABASE_POOL="8", NOVELLA_UPLOADS_AT_ONCE="12")
    alice, charlie = Member(port, people.alice), Member(port, people.charlie)
    stalled(alice, 12)
    for path in ("/healthz", "/image/v2/images", "/compute/v2.1/servers"):
        assert charlie.ask("GET", path).status in {200, 503 if path == "/healthz" else 200}
    assert charlie.upload(b"x" * 5000).status == 204


@pytest.mark.slow
def test_a_member_has_a_share_of_the_uploads(
    serve: Serve, people: People, stalled: Callable[[Member, int], list[socket.socket]]
) -> None:
    port = serve(NOVELLA_UPLOADS_AT_ONCE="3")
    alice, charlie = Member(port, people.alice), Member(port, people.charlie)
    first, *_ = stalled(alice, 3)
    refused = alice.upload(b"x" * 5000)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "10")
    assert charlie.upload(b"x" * 5000).status == 204
    first.close()
    eventually(lambda: alice.upload(b"x" * 5000).status == 204, "a place is free again")


class Slow:
    """A client that sends a piece now and then."""

    def __init__(self, pauses: list[float], size: int) -> None:
        self.pauses, self.size = pauses, size
        self.exchange = Exchange(lambda: None, streamed=True)

    def read_all(self) -> int:
        """Read to the end as a view does; the client sends while the view waits."""
        patience, total = streams._Patience(), 0
        read = self.exchange.read

        def wait(timeout: float | None = None) -> bytes:
            if not self.pauses:
                self.exchange.end()
            elif timeout is not None and self.pauses[0] > timeout:
                time.sleep(timeout)
                self.pauses[0] -= timeout
                raise TimeoutError
            else:
                time.sleep(self.pauses.pop(0))
                self.exchange.feed(b"x" * self.size)
            return read(timeout)

        self.exchange.read = wait  # type: ignore[method-assign]
        while data := patience.read(self.exchange):
            total += len(data)
        return total


def test_a_client_that_sends_too_little_is_not_waited_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WINDOW", 0.1)
    settings.UPLOAD_LEAST_RATE = 1000
    assert Slow([0.04] * 8, 10_000).read_all() == 80_000
    with pytest.raises(BodyInterruptedError, match="fewer than 1000 bytes a second"):
        Slow([0.04] * 8, 20).read_all()
    with pytest.raises(BodyInterruptedError, match="fewer than 1000 bytes a second"):
        Slow([0.0, 60.0], 1).read_all()


def test_an_upload_has_an_end(settings: Settings) -> None:
    settings.UPLOAD_TIMEOUT = 0.1
    with pytest.raises(BodyInterruptedError, match="more than"):
        Slow([0.03] * 10, 100).read_all()
    assert Slow([0.03] * 10, 1 << 20).read_all() == 10 << 20, "a fast one goes on"


def test_only_waiting_counts(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is slow to write is not the client's fault."""
    monkeypatch.setattr(streams, "WINDOW", 1.0)
    settings.UPLOAD_LEAST_RATE = 1 << 30
    exchange, patience = Exchange(lambda: None, streamed=True), streams._Patience()
    for _ in range(4):
        exchange.feed(b"x")
    for _ in range(4):
        assert patience.read(exchange) == b"x"
        time.sleep(0.3)


@pytest.mark.parametrize("path", ["/agent/v1/instances", "/image/v2/images"])
def test_hosts_have_threads_of_their_own(path: str) -> None:
    from portal.web.handler import PooledHandler  # noqa: PLC0415 - loads the middleware

    handler = PooledHandler()
    scope = {"path": path, "method": "PUT", "headers": [(b"content-type", b"application/octet-stream")]}
    assert handler._pool_for(scope) is (handler._hosts if path.startswith("/agent") else handler._uploads)


def test_the_refusal_is_in_the_shape_of_the_service(people: People, settings: Settings) -> None:
    """What a client of Glance reads."""
    from portal.web import upload_shares  # noqa: PLC0415
    from tests.support.cast import Api  # noqa: PLC0415

    settings.UPLOADS_AT_ONCE = 1
    alice = people.alice
    image = images.create(context_of(alice.user, alice.project), name="x", disk_format="raw", container_format="bare")
    with upload_shares.share_of(context_of(alice.user, alice.project)):
        answer = Api(alice).put(f"/image/v2/images/{image.id}/file", b"x", content_type="application/octet-stream")
    assert answer.status_code == 429
    assert "1 uploads in progress" in json.loads(answer.content)["message"]
    assert not shares.held
