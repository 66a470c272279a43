"""The base of every WebSocket consumer."""

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

HANG_UP = 1006
"""Close code that ends the connection without a close frame, as RFC 6455 reserves it (7.4.1)."""


class Consumer(AsyncWebsocketConsumer):
    """Calls the handler directly.

    Channels would first use a thread to close database connections, which are never opened here.
    """

    async def dispatch(self, message: dict[str, Any]) -> None:
        await getattr(self, message["type"].replace(".", "_"))(message)
