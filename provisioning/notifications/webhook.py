"""Delivery of a notification to the operator's webhook, signed; redirects are not followed."""

import contextlib
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

AGENT = "Novella"
MOST_READ = 65_536
"""Maximum number of bytes read of a response; its content is ignored."""


class WebhookError(Exception):
    """The webhook has not accepted a notification; the text is the reason, for operators."""


def encoded(message: Mapping[str, Any]) -> str:
    """Return the body of a message, the same bytes at every attempt."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the value of ``X-Novella-Signature``: HMAC-SHA256 of the timestamp, a dot and the body."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def post(event_type: str, message_id: str, text: str) -> None:
    """Send a notification. Raises WebhookError unless the status is 2xx."""
    address, body = urlsplit(settings.NOTIFICATION_WEBHOOK), text.encode()
    timestamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": AGENT,
        "X-Novella-Event": event_type,
        "X-Novella-Message-Id": message_id,
        "X-Novella-Timestamp": timestamp,
        "Connection": "close",
    }
    if settings.NOTIFICATION_WEBHOOK_SECRET:
        headers["X-Novella-Signature"] = signature(settings.NOTIFICATION_WEBHOOK_SECRET, timestamp, body)
    connection = _connection(address)
    try:
        connection.connect()
        with _at_most(settings.NOTIFICATION_WEBHOOK_TIMEOUT, connection.sock):
            connection.request("POST", _target(address), body, headers)
            answer = connection.getresponse()
            answer.read(MOST_READ)
        status = answer.status
    except (OSError, http.client.HTTPException) as error:
        raise WebhookError(f"No answer: {str(error) or type(error).__name__}"[:255]) from error
    finally:
        connection.close()
    if 300 <= status < 400:
        raise WebhookError(f"It answered {status}: redirects are not followed.")
    if not 200 <= status < 300:
        raise WebhookError(f"It answered {status}.")


@contextlib.contextmanager
def _at_most(seconds: float, link: socket.socket) -> Iterator[None]:
    """Close the connection after ``seconds`` in total; the socket's own timeout restarts with each received byte."""

    def cut() -> None:
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _connection(address: SplitResult) -> http.client.HTTPConnection:
    host, timeout = address.hostname or "", settings.NOTIFICATION_WEBHOOK_TIMEOUT
    if address.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, address.port, timeout=timeout, context=context)
    return http.client.HTTPConnection(host, address.port, timeout=timeout)


def _target(address: SplitResult) -> str:
    return (address.path or "/") + (f"?{address.query}" if address.query else "")
