"""The portal's ASGI application on the tests' database: ``python -m daphne tests.web.server:application``."""

import os

from django.conf import settings

settings.DATABASES["default"]["NAME"] = os.environ["TESTS_DATABASE"]

from portal.asgi import application  # noqa: E402 - Django must not be set up before the line above
from portal.web import websockets  # noqa: E402

websockets.STALLED = float(os.environ.get("TESTS_STALLED", websockets.STALLED))

__all__ = ["application"]
