"""ASGI entry: HTTP to Django, WebSockets to the live consumers; faces that must not import each other meet here."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
http = get_asgi_application()  # sets Django up, which the imports below need
import_string("portal.common.web_requests.install")()
import_string("portal.live.backpressure.install")()
render = import_string("portal.dashboard.live.render")
websocket = import_string("portal.live.routing.websocket_router")(render)
application = ProtocolTypeRouter({"http": http, "websocket": websocket})
