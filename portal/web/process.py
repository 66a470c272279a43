"""One web process: Daphne on an already listening socket, with reports to its master.

Importing this module creates Daphne's event loop, so it is imported only after the fork.
"""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from daphne import server as daphne_server
from daphne.cli import CommandLineInterface
from daphne.server import reactor
from django.conf import settings
from twisted.internet import defer

from portal.web import board as shared
from portal.web.board import Board
from portal.web.handler import USUAL_THREADS
from portal.web.master import STOP_WITHIN
from portal.web.shared_port import SharedPort
from portal.web.slow_readers import SlowReaders

logger = logging.getLogger(__name__)

OPTIONS = (
    *("--verbosity", "0", "--no-server-name"),
    *("--websocket_timeout", "-1", "--websocket_connect_timeout", "60"),
    *("--application-close-timeout", "5"),
)
"""Options of Daphne: no access log, no maximum lifetime of WebSockets, a minute to accept one (a transaction can wait
20 seconds for a busy database), and five seconds for a handler to end after its client has disconnected.
"""


class _Endpoint:
    """The endpoint that Daphne listens on, instead of the endpoint in its options."""

    def __init__(self, listening: socket.socket, board: Board, row: int) -> None:
        self._listening, self._board, self._row = listening, board, row

    def listen(self, factory: Any) -> Any:
        """Return a Deferred of the listening port."""
        port = SharedPort._fromListeningDescriptor(reactor, self._listening.fileno(), self._listening.family, factory)
        port.board, port.row = self._board, self._row
        port.most_of_address = settings.CONNECTIONS_PER_ADDRESS
        port.slow_readers = SlowReaders(settings.UNSENT_PER_ADDRESS, settings.READ_TIMEOUT)
        port.startListening()
        return defer.succeed(port)


def run(listening: socket.socket, application: str, options: Sequence[str], board: Board, row: int) -> None:
    """Serve until SIGTERM or SIGINT, and exit at the latest ``STOP_WITHIN`` seconds later, even if requests still
    wait.
    """
    reactor.addSystemEventTrigger("before", "shutdown", _end_in_time)
    endpoint = _Endpoint(listening, board, row)
    daphne_server.serverFromString = lambda *_: endpoint
    interface = CommandLineInterface()
    interface.server_class = _server_that_asks_itself(board, row)
    interface.run([*OPTIONS, *options, "--fd", str(listening.fileno()), application])


def _end_in_time() -> None:
    """Exit ``STOP_WITHIN`` seconds after the signal, even if threads are still waiting for an unavailable database."""

    def end() -> None:
        logger.warning("Requests are still in progress %g s after the signal to stop; they are dropped.", STOP_WITHIN)
        logging.shutdown()
        os._exit(0)

    timer = threading.Timer(STOP_WITHIN, end)
    timer.daemon = True
    timer.start()


def _server_that_asks_itself(board: Board, row: int) -> type[daphne_server.Server]:
    class AskingServer(daphne_server.Server):
        """Daphne's server, which also sends requests to itself."""

        def run(self) -> None:
            reactor.callWhenRunning(self._ask)
            super().run()

        def _ask(self) -> None:
            self._asked = asyncio.ensure_future(_keep_asking(self.application, board, row))

    return AskingServer


async def _keep_asking(application: Any, board: Board, row: int) -> None:
    """Send requests to this process, and record each answer. Whatever its status, an answer shows that event loop,
    threads and middleware are working.
    """
    while True:
        if await _ask(application):
            board.answers(row)
        await asyncio.sleep(shared.ASK_EVERY)


async def _ask(application: Any) -> bool:
    """Send ``GET /healthz`` to the application; return whether it answers."""
    name = next(iter(settings.ALLOWED_HOSTS), "localhost").replace("*", "localhost").lstrip(".")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/healthz",
        "raw_path": b"/healthz",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", name.encode())],
        "client": None,
        "server": None,
        USUAL_THREADS: True,
    }
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        if messages:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await application(scope, receive, send)
    return bool(messages)
