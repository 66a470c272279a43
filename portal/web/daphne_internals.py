"""Every private name of the web server that this package uses, and the one function that changes Daphne.

``tests/web/test_daphne_internals.py`` fails if a new version of a library changes one of these names.

Replaced by ``install``:

* ``daphne.http_protocol.WebRequest`` by ``http_requests.StreamingRequest``
* ``twisted.web.http.HTTPChannel.lineLengthExceeded(line)`` by ``http_requests.refuse_line``
* ``daphne.server.WebSocketFactory.protocol`` by ``websockets.BoundedWebSocket``
* ``daphne.server.Server.handle_reply(protocol, message)`` by ``websockets.reply``, which waits until a peer or a client
  has read
* ``daphne.server.Server.create_application(protocol, scope)`` by ``websockets.create_application``, which adds to the
  scope
* ``daphne.access.AccessLogGenerator.__call__(protocol, action, details)`` by ``access_log.log``
* ``daphne.server.serverFromString(reactor, description)`` by ``process.run``: the endpoint is the socket that the
  master listens on

Of Twisted, in ``shared_port``: ``tcp.Port._fromListeningDescriptor``, ``transport``, ``numberAccepts``, ``doRead``,
``startListening``, ``stopReading``, ``startReading``, ``connected``, ``reactor``; ``tcp.Server.server``, ``protocol``,
``hostname``, ``connected``, ``dataBuffer``, ``offset``, ``_tempDataLen``, ``writeSomeData``, ``abortConnection`` and
``connectionLost``.

Overridden in StreamingRequest (Daphne's WebRequest, Twisted's Request): ``gotLength``, ``handleContentChunk``,
``requestReceived``, ``process``, ``handle_reply``, ``finish``, ``connectionLost``.  Used there: of the request
``channel``, ``chunked``, ``content``, ``finished``, ``startedWriting``, ``method``, ``uri``, ``path``, ``clientproto``,
``_disconnected``, ``write``, ``registerProducer``, ``unregisterProducer``, ``loseConnection``; of its channel
``_HTTPChannel__first_line``, ``_command``, ``_path``, ``_version``, ``_waitingForTransport``, ``requests``,
``persistent``, ``timeOut``, ``setTimeout``, ``transport``; ``producer``, ``responseHeaders`` and ``sentLength`` of the
request.

Overridden in BoundedWebSocket (Daphne's WebSocketProtocol, Autobahn's): ``onOpen``, ``onMessageFrameBegin``,
``onMessage``, ``onClose``, ``dataReceived``, ``handle_reply``, ``serverSend``.  Used there: ``application_queue``,
``path``, ``data``, ``state``, ``STATE_CONNECTING``, ``STATE_OPEN``, ``sendClose``, ``autoPingTimeout``,
``dropConnection``, ``message_data_total_length``, and of the transport ``producer``, ``registerProducer``,
``unregisterProducer``, ``pauseProducing``, ``resumeProducing``, ``setTcpKeepAlive``.

Of Django, in ``handler.PooledHandler``: ``ASGIHandler.read_body``, ``create_request``, ``send_response``,
``load_middleware(is_async=False)``, ``get_script_prefix``, and that ``BaseHandler.__init__`` loads nothing.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from daphne import access, http_protocol, server
from daphne.access import AccessLogGenerator
from twisted.web import http

from portal.web import http_requests, websockets

HIDDEN = (
    "/console/", "/ws/console", "/compute/v2.1/os-console-auth-tokens/", "/compute/v2/os-console-auth-tokens/",
    "/identity/v2.0/tokens/",
)  # fmt: skip
"""Path prefixes after which the rest of the path is not logged."""

_write = AccessLogGenerator.__call__


def install(refusal: http_requests.Refusal | None = None) -> None:
    """Patch Daphne in this process, before the server listens.

    ``refusal`` returns the response for a rejected body, by path and status, in the format of the API.
    """
    if refusal is not None:
        http_requests.StreamingRequest.refusal = staticmethod(refusal)  # type: ignore[method-assign, assignment]
    http_protocol.WebRequest = http_requests.StreamingRequest
    http.HTTPChannel.lineLengthExceeded = http_requests.refuse_line  # type: ignore[method-assign]
    server.WebSocketFactory.protocol = websockets.BoundedWebSocket
    server.Server.handle_reply = websockets.reply
    server.Server.create_application = websockets.create_application
    access.AccessLogGenerator.__call__ = log


def shown(path: str) -> str:
    """Return the part of an address that may be logged."""
    read = unquote(path)  # as in routing
    hidden = next((each for each in HIDDEN if read.startswith(each)), None)
    if hidden is None:
        return path
    return f"{hidden}-" if hidden.endswith("tokens/") else path.partition("?")[0]


def log(self: Any, protocol: str, action: str, details: Mapping[str, Any]) -> None:
    """Write a line in Daphne's format."""
    _write(self, protocol, action, {**details, "path": shown(str(details.get("path", "")))})
