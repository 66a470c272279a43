"""ASGI entry: HTTP to Django, WebSockets to their consumers.  The faces, which do not import each other, meet here.

Importing this opens nothing, so that ``manage.py web`` can do it once and then fork: no event loop, which importing
Daphne's server would make, no thread and no connection to the database.
"""

import importlib
import os
import sys

import django
from channels.routing import ProtocolTypeRouter

from provisioning.common.left_out import leave_out

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
leave_out(os.environ.get("NOVELLA_ROLE", ""))
django.setup(set_prefix=False)  # before the imports below: they need the apps

from portal.api.common.faults import refusal
from portal.dashboard.live import render
from portal.routing import websocket_router
from portal.web.handler import PooledHandler
from provisioning.identity import policy

policy.load()  # a broken file of rules stops the start
application = ProtocolTypeRouter({"http": PooledHandler(), "websocket": websocket_router(render)})


def install() -> None:
    """Change Daphne in this process, which runs it and does not listen yet."""
    importlib.import_module("portal.web.daphne_internals").install(refusal)


if "daphne.server" in sys.modules:  # it was started as ``python -m daphne``
    install()
