"""Django's HTTP handler, which switches threads only once for each request.

Under ASGI, Django creates a thread for each request and switches between it and the event loop for every middleware,
signal and view, which costs more than most requests themselves. Here all of these are synchronous and run in one thread
of a pool; these threads also keep their SQLite connection.
"""

import asyncio
import contextvars
import functools
from collections.abc import Coroutine
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import JsonResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from portal.web.request_threads import RequestThreads

THREADS = 16
"""Requests processed simultaneously; some of them wait for hosts."""
UPLOAD_THREADS = 64
"""Simultaneous uploads; each waits for its client, so they have their own threads."""
HOST_THREADS = 16
"""Simultaneous requests of hosts, so that users' uploads do not delay snapshots."""
HEALTH = "/healthz"
HEALTH_WITHIN = 1.0
"""Seconds after which the health check is answered with 503, because load balancers do not wait longer."""
USUAL_THREADS = "novella.usual_threads"
"""Scope key of requests that run in the threads for pages, even if there are separate threads for their path."""
HOSTS = "/agent/"
"""Path prefix of hosts' requests."""
MOST_HELD_BACK = 128
"""Maximum number of delayed responses in one process; beyond it, responses are sent immediately."""
LONGEST_HELD_BACK = 1.0
"""Maximum delay in seconds."""


def hold_back(response: HttpResponseBase, seconds: float) -> None:
    """Delay the response by ``seconds``, at most ``LONGEST_HELD_BACK``, without occupying a thread or database
    connection.
    """
    response.held_back = min(seconds, LONGEST_HELD_BACK)  # type: ignore[attr-defined]


class PooledHandler(ASGIHandler):
    """Serves HTTP; the middleware is loaded for synchronous use."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._pool = RequestThreads(THREADS, "http")
        self._uploads = RequestThreads(UPLOAD_THREADS, "upload")
        self._hosts = RequestThreads(HOST_THREADS, "host")
        self._health = RequestThreads(2, "health")
        self._held_back = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        pool = self._pool_for(scope)
        context = contextvars.copy_context()
        work = pool.run(functools.partial(context.run, self._respond, scope, body))
        response = await (_in_time(work, body) if pool is self._health else work)
        try:
            await self._wait(response)
            await self.send_response(response, send)
        finally:
            if response.streaming:
                await pool.run(response.close)

    async def _wait(self, response: HttpResponseBase) -> None:
        """Wait for the time set by ``hold_back``."""
        seconds = getattr(response, "held_back", 0.0)
        if not seconds or self._held_back >= MOST_HELD_BACK:
            return
        self._held_back += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._held_back -= 1

    def _pool_for(self, scope: dict[str, Any]) -> RequestThreads:
        if scope["path"] == HEALTH and not scope.get(USUAL_THREADS):
            return self._health
        if scope["path"].startswith(HOSTS):
            return self._hosts
        return self._uploads if _is_upload(scope) else self._pool

    def _respond(self, scope: dict[str, Any], body: IO[bytes] | SpooledTemporaryFile[bytes]) -> HttpResponseBase:
        """Process the request in a thread and return the response, which is closed here unless it is streamed."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        try:
            request, response = self.create_request(scope, body)
            if request is not None:
                response = self.get_response(request)
            if response is None:
                raise RuntimeError("The scope resulted in neither a request nor a refusal.")
            if not response.streaming:
                response.close()
            return response
        finally:
            body.close()


async def _in_time(work: Coroutine[Any, Any, HttpResponseBase], body: IO[bytes]) -> HttpResponseBase:
    """Return the response of ``/healthz``, or 503 after a timeout."""
    try:
        return await asyncio.wait_for(work, HEALTH_WITHIN)
    except TimeoutError:
        body.close()  # no thread may have started on it
        return JsonResponse({"status": "no answer in time", "web": True, "workers": 0, "hosts_up": 0}, status=503)


def _is_upload(scope: dict[str, Any]) -> bool:
    """Whether the body may still be arriving; other bodies are complete when the request is processed."""
    return scope["method"] == "PUT" and any(
        name == b"content-type" and value.lower().startswith(b"application/octet-stream")
        for name, value in scope["headers"]
    )
