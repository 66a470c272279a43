"""ASGI entry point: HTTP to Django, WebSockets to their consumers.

It combines the packages of the portal, which do not import each other. Importing it opens no event loop (as importing
Daphne's server would), no thread and no database connection, so that ``manage.py web`` can import it once and then
fork.
"""

import os
import sys

import django
from channels.routing import ProtocolTypeRouter

from provisioning.common.processes.left_out import leave_out

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
leave_out(os.environ.get("NOVELLA_ROLE", ""))
django.setup(set_prefix=False)  # before the imports below, which need the apps

from portal.api.common.faults import refusal
from portal.dashboard.live import render
from portal.routing import websocket_router
from portal.web.handler import PooledHandler
from provisioning.identity import policy

policy.load()  # an invalid policy file stops the start
application = ProtocolTypeRouter({"http": PooledHandler(), "websocket": websocket_router(render)})


def install() -> None:
    """Patch Daphne in this process, before it listens."""
    from portal.web import daphne_internals  # noqa: PLC0415 - it imports Daphne's server, which opens an event loop

    daphne_internals.install(refusal)


if "daphne.server" in sys.modules:  # started as ``python -m daphne``
    install()
