"""ASGI entry: HTTP to Django, WebSockets to their consumers.  The faces, which do not import each other, meet here."""

import os

import django
from channels.routing import ProtocolTypeRouter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)  # before the imports below: they need the apps

from portal.api.common.faults import too_large
from portal.dashboard.live import render
from portal.routing import websocket_router
from portal.web import daphne_internals
from portal.web.handler import PooledHandler
from provisioning.identity import policy

policy.load()  # a broken file of rules stops the start
daphne_internals.install(too_large)
application = ProtocolTypeRouter({"http": PooledHandler(), "websocket": websocket_router(render)})
