"""ASGI entry: HTTP to Django, WebSockets to the live consumers."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
application = ProtocolTypeRouter({"http": get_asgi_application()})
