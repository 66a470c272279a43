"""ASGI entry: HTTP to Django, WebSockets to the live consumers; faces that must not import each other meet here."""

import os

import django
from channels.routing import ProtocolTypeRouter
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup(set_prefix=False)  # which the imports below need
import_string("provisioning.identity.policy.load")()  # a broken file of rules stops the start
http = import_string("portal.common.web_handler.PooledHandler")()
import_string("portal.common.web_requests.install")(import_string("portal.api.common.faults.too_large"))
import_string("portal.live.backpressure.install")()
import_string("portal.live.access_log.install")()
render = import_string("portal.dashboard.live.render")
websocket = import_string("portal.live.routing.websocket_router")(render)
application = ProtocolTypeRouter({"http": http, "websocket": websocket})
