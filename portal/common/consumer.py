"""The base of every WebSocket consumer."""

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

HANG_UP = 1006
"""Closed with this code, a connection ends without a frame: RFC 6455 lets none have it (7.4.1)."""


class Consumer(AsyncWebsocketConsumer):
    """Calls the handler itself: Channels goes through a thread first, to close database connections nobody opened."""

    async def dispatch(self, message: dict[str, Any]) -> None:
        await getattr(self, message["type"].replace(".", "_"))(message)
