"""The portal's ASGI application on the tests' database, for ``python -m daphne tests.web.server:application`` and
``manage.py web --application tests.web.server:application``.
"""

import os

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

settings.DATABASES["default"]["NAME"] = os.environ["TESTS_DATABASE"]

from portal.asgi import application, install  # noqa: E402 - Django must not be set up before the line above
from portal.web import board, master  # noqa: E402

if "TESTS_STALLED" in os.environ:
    from portal.web import websockets

    websockets.STALLED = float(os.environ["TESTS_STALLED"])
if "TESTS_STUCK" in os.environ:
    import pathlib
    import threading

    from portal.web.handler import PooledHandler

    answer = PooledHandler.get_response
    master.STOP_WITHIN = 0.5

    def get_response(handler: PooledHandler, request: HttpRequest) -> HttpResponseBase:
        """Wait for ever, as for a database that is away: in the request's thread, and in one that Python joins."""
        if request.path == "/stuck":
            threading.Thread(target=threading.Event().wait, daemon=False).start()
            pathlib.Path(os.environ["TESTS_STUCK"]).touch()
            threading.Event().wait()
        return answer(handler, request)

    PooledHandler.get_response = get_response  # type: ignore[method-assign]
if "TESTS_SILENT" in os.environ:
    master.SILENT_FOR, board.ASK_EVERY = float(os.environ["TESTS_SILENT"]), 0.1

__all__ = ["application", "install"]
