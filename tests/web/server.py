"""The portal's ASGI application on the tests' database, for ``python -m daphne tests.web.server:application`` and
``manage.py web --application tests.web.server:application``.
"""

import os

from django.conf import settings

settings.DATABASES["default"]["NAME"] = os.environ["TESTS_DATABASE"]

from portal.asgi import application  # noqa: E402 - Django must not be set up before the line above
from portal.web import board, master  # noqa: E402

if "TESTS_STALLED" in os.environ:
    from portal.web import websockets

    websockets.STALLED = float(os.environ["TESTS_STALLED"])
if "TESTS_SILENT" in os.environ:
    master.SILENT_FOR, board.ASK_EVERY = float(os.environ["TESTS_SILENT"]), 0.1

__all__ = ["application"]
