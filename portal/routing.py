"""The WebSockets' paths."""

from typing import Any

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from portal.agents.link import AgentConsumer
from portal.agents.tunnels import TunnelConsumer
from portal.sockets.browser import BrowserConsumer, Render
from portal.sockets.console_log import ConsoleLogConsumer
from portal.sockets.consoles import ConsoleConsumer
from portal.sockets.scripts import ScriptsConsumer


def websocket_router(render: Render) -> URLRouter:
    """Route every WebSocket; ``render`` makes the dashboard's partials.  Unknown paths are denied."""
    consumers: dict[str, Any] = {
        "ws/agent": AgentConsumer.as_asgi(),
        "ws/agent/consoles/<str:tunnel>": TunnelConsumer.as_asgi(),
        "ws/console": ConsoleConsumer.as_asgi(),
        "ws/dashboard": BrowserConsumer.as_asgi(render=render),
        "ws/dashboard/servers/<uuid:instance_id>/console-log": ConsoleLogConsumer.as_asgi(),
        "ws/v1/events": ScriptsConsumer.as_asgi(),
    }
    anything_else: Any = WebsocketDenier.as_asgi()
    routes: list[Any] = [path(route, consumer) for route, consumer in consumers.items()]
    return URLRouter([*routes, re_path("", anything_else)])
