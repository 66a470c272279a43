"""What watches the cloud, and what those who are watched can do to it: logs, webhooks."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from provisioning.common.context import RequestContext
from provisioning.notifications import delivery, services
from provisioning.notifications.messages import Notification, versioned
from provisioning.notifications.models import Delivery, Webhook
from tests.support.clouds import Cloud, context

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> RequestContext:
    return context("alice")


@contextlib.contextmanager
def answering(*parts: bytes, pause: float = 0.0) -> Iterator[str]:
    """The address of a server that answers one request with these bytes, with a pause before each part."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def answer() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65_536)
                for part in parts:
                    time.sleep(pause)
                    connection.sendall(part)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def tell() -> None:
    payload = versioned("Test", "1.0", {})
    services.notify([Notification("instance.test.start", "nova-compute:kelvin", payload, "one")])


def test_an_answer_of_the_webhook_is_kept_without_hidden_characters(settings: Settings) -> None:
    """PostgreSQL refuses NUL: the failure could not be noted, and the same would be sent again and again."""
    with answering(b"\x00\x1b[2J\x9bno HTTP\r\n\r\n") as settings.NOTIFICATION_WEBHOOK:
        tell()
        delivery.deliver()
    row = Delivery.objects.get()
    assert row.tries == 1
    assert "no HTTP" in row.last_error
    assert row.last_error.isprintable()
    assert Webhook.objects.get().last_error.isprintable()


def test_a_webhook_that_answers_byte_by_byte_keeps_no_worker(settings: Settings) -> None:
    """The time that it may take is that of the whole answer; else one sender after the other would hang there."""
    settings.NOTIFICATION_WEBHOOK_TIMEOUT = 0.3
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    with answering(*(bytes([byte]) for byte in answer), pause=0.05) as settings.NOTIFICATION_WEBHOOK:
        tell()
        delivery.deliver()
    assert Delivery.objects.get().last_error.startswith("No answer")


def test_users_write_no_control_characters_into_the_log(
    alice: RequestContext, caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: object
) -> None:
    """A notification is one line, whatever a server's metadata say, and nothing that a terminal obeys."""
    caplog.set_level(logging.INFO, "novella.notifications")
    cloud = Cloud.make()
    cloud.add_host("one")
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        cloud.launch(alice, metadata={"a": "x\x9b2Jy\u2028z\x85\u202e\x7f"})
        cloud.run()
    lines = [record.getMessage() for record in caplog.records if record.name == "novella.notifications"]
    assert any("instance.create.end" in line for line in lines)
    assert all(line.isprintable() for line in lines)
