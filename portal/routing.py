"""The WebSockets' paths."""

from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from portal.agents.link import AgentConsumer
from portal.agents.tunnels import TunnelConsumer
from portal.sockets.browser import BrowserConsumer
from portal.sockets.consoles import ConsoleConsumer
from portal.sockets.guest_logs import ConsoleLogConsumer
from portal.sockets.guest_ports import GuestPortConsumer
from portal.sockets.renders import Render, Renders
from portal.sockets.scripts import ScriptsConsumer


def websocket_router(render: Render) -> URLRouter:
    """Route every WebSocket; unknown paths are refused.

    ``render`` renders the dashboard's partials, as the portal's packages do not import each other.
    """
    renders = Renders(render)
    consumers: dict[str, Any] = {
        "ws/agent": AgentConsumer.as_asgi(),
        "ws/agent/consoles/<str:tunnel>": TunnelConsumer.as_asgi(),
        "ws/agent/tunnels/<str:tunnel>": TunnelConsumer.as_asgi(),
        "ws/console": ConsoleConsumer.as_asgi(),
        "ws/dashboard": BrowserConsumer.as_asgi(renders=renders),
        "ws/dashboard/servers/<uuid:instance_id>/console-log": ConsoleLogConsumer.as_asgi(),
        "ws/servers/<uuid:instance_id>/tunnel": GuestPortConsumer.as_asgi(),
        "ws/v1/events": ScriptsConsumer.as_asgi(),
    }
    anything_else: Any = WebsocketDenier.as_asgi()
    routes: list[Any] = [path(route, consumer) for route, consumer in consumers.items()]
    return URLRouter([*routes, re_path("", anything_else)])
