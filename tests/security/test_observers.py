"""What watches the cloud, and what those who are watched can do to it: logs, webhooks."""

from __future__ import annotations

import logging
import socket
import threading
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


@pytest.fixture
def odd_webhook() -> Iterator[str]:
    """An address whose answer is no HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(65_536):
                    pass
                connection.sendall(b"\x00\x1b[2J\x9bno HTTP\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def test_an_answer_of_the_webhook_is_kept_without_hidden_characters(odd_webhook: str, settings: Settings) -> None:
    """PostgreSQL refuses NUL: the failure could not be noted, and the same would be sent again and again."""
    settings.NOTIFICATION_WEBHOOK = odd_webhook
    said = versioned("Test", "1.0", {})
    services.notify([Notification("instance.test.start", "nova-compute:kelvin", said, "one")])
    delivery.deliver()
    row = Delivery.objects.get()
    assert row.tries == 1
    assert "no HTTP" in row.last_error
    assert row.last_error.isprintable()
    assert Webhook.objects.get().last_error.isprintable()


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
