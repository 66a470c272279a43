"""The private names of Daphne, Twisted, Autobahn and Django that portal.web relies on: a test here fails when another
version of one of them changes a name or its parameters.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from autobahn.twisted.websocket import WebSocketServerFactory
from daphne import access, http_protocol, server, ws_protocol
from daphne.cli import CommandLineInterface
from daphne.server import Server
from django.core.handlers.asgi import ASGIHandler
from twisted.internet import tcp
from twisted.internet.testing import StringTransport
from twisted.web import http

from portal.api.common import faults
from portal.web import daphne_internals, http_requests, process, websockets
from portal.web.handler import PooledHandler

REQUEST = http_requests.StreamingRequest.__mro__[1]
SOCKET = websockets.BoundedWebSocket.__mro__[1]


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_everything_is_replaced_and_by_the_like(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in (
        (http_protocol, "WebRequest"),
        (http.HTTPChannel, "lineLengthExceeded"),
        (server.WebSocketFactory, "protocol"),
        (Server, "handle_reply"),
        (Server, "create_application"),
        (access.AccessLogGenerator, "__call__"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    daphne_internals.install()
    assert http_protocol.WebRequest is http_requests.StreamingRequest
    assert server.WebSocketFactory.protocol is websockets.BoundedWebSocket
    assert Server.handle_reply is websockets.reply
    assert Server.create_application is websockets.create_application
    assert access.AccessLogGenerator.__call__ is daphne_internals.log
    factory = http_protocol.HTTPFactory(None)
    factory.protocol = http.HTTPChannel
    assert factory.buildProtocol(None).requestFactory is http_requests.StreamingRequest
    assert issubclass(server.WebSocketFactory, WebSocketServerFactory)
    assert REQUEST.__name__ == "WebRequest"
    assert issubclass(REQUEST, http.Request)
    assert SOCKET is ws_protocol.WebSocketProtocol


def test_what_is_replaced_is_called_as_before() -> None:
    assert parameters(websockets._send) == ["self", "protocol", "message"] == parameters(websockets.reply)
    assert inspect.iscoroutinefunction(websockets._send)
    assert (
        parameters(daphne_internals._write)
        == ["self", "protocol", "action", "details"]
        == parameters(daphne_internals.log)
    )


@pytest.mark.parametrize(
    "name",
    ["gotLength", "handleContentChunk", "requestReceived", "process", "handle_reply", "finish", "connectionLost"],
)
def test_a_request_overrides_what_there_is(name: str) -> None:
    assert parameters(getattr(http_requests.StreamingRequest, name)) == parameters(getattr(REQUEST, name))


@pytest.mark.parametrize(
    "name", ["onOpen", "onMessageFrameBegin", "onMessage", "onClose", "dataReceived", "handle_reply", "serverSend"]
)
def test_a_socket_overrides_what_there_is(name: str) -> None:
    assert parameters(getattr(websockets.BoundedWebSocket, name)) == parameters(getattr(SOCKET, name))


def test_what_is_used_of_a_request_and_its_channel() -> None:
    channel = http.HTTPChannel()
    channel.timeOut = None
    channel.makeConnection(StringTransport())
    channel.dataReceived(b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    (request,) = channel.requests
    assert (channel._command, channel._path, channel._version) == (b"PUT", b"/x", b"HTTP/1.1")
    assert request.content.tell() == 2
    for name in ("channel", "chunked", "finished", "startedWriting", "method", "uri", "clientproto"):
        assert hasattr(request, name), name
    for name in ("_disconnected", "write", "registerProducer", "unregisterProducer", "loseConnection"):
        assert hasattr(request, name), name
    for name in ("producer", "responseHeaders", "sentLength"):
        assert hasattr(request, name), name
    for name in ("_waitingForTransport", "persistent", "timeOut", "setTimeout", "transport"):
        assert hasattr(channel, name), name


@pytest.mark.parametrize(
    ("begun", "status", "words"),
    [
        (b"GET /network/v2.0/ports?name=", b"414 ", b'"type":"HTTPRequestURITooLong"'),
        (b"GET /compute/v2.1/servers HTTP/1.1\r\nX-Auth-Token: ", b"431 ", b'"computeFault"'),
        (b"x", b"414 ", b"longer than 16 KiB"),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_line_that_is_too_long_is_answered(
    monkeypatch: pytest.MonkeyPatch, begun: bytes, status: bytes, words: bytes, whole: bool
) -> None:
    monkeypatch.setattr(http.HTTPChannel, "lineLengthExceeded", http_requests.refuse_line)
    monkeypatch.setattr(http_requests.StreamingRequest, "refusal", staticmethod(faults.refusal))
    channel, transport = http.HTTPChannel(), StringTransport()
    channel.makeConnection(transport)
    channel.dataReceived(begun + b"x" * 60_000 + (b" HTTP/1.1\r\n\r\n" if whole else b""))
    head, _, body = transport.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert words in body
    assert transport.disconnecting


def test_what_is_used_of_a_socket_and_its_transport() -> None:
    factory = WebSocketServerFactory("ws://127.0.0.1")
    factory.protocol = SOCKET
    socket = factory.buildProtocol(None)
    socket.makeConnection(StringTransport())
    assert socket.state == socket.STATE_CONNECTING != socket.STATE_OPEN
    for name in ("sendClose", "dropConnection", "sendMessage"):
        assert hasattr(socket, name), name
    socket.onMessageBegin(True)
    socket.onMessageFrameBegin(7)
    assert socket.message_data_total_length == 7
    socket.application_queue, socket.client_addr = asyncio.Queue(), None
    socket.onMessage(b"a", True)
    assert socket.application_queue.get_nowait() == {"type": "websocket.receive", "bytes": b"a"}
    for name in ("producer", "registerProducer", "unregisterProducer", "pauseProducing", "resumeProducing"):
        assert hasattr(tcp.Connection, name), name


def test_what_is_used_of_djangos_handler() -> None:
    assert parameters(ASGIHandler.read_body) == ["self", "receive"]
    assert parameters(ASGIHandler.create_request) == ["self", "scope", "body_file"]
    assert parameters(ASGIHandler.send_response) == ["self", "response", "send"]
    assert parameters(ASGIHandler.load_middleware) == ["self", "is_async"]
    assert not inspect.iscoroutinefunction(PooledHandler().get_response)


def test_a_socket_that_waits_for_the_database_is_accepted() -> None:
    """SQLite waits for 20 seconds while another process writes."""
    options = CommandLineInterface().parser.parse_args([*process.OPTIONS, "portal.asgi:application"])
    assert options.websocket_connect_timeout > 20
    assert options.websocket_timeout == -1, "and stays open"
