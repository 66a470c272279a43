"""The base of every WebSocket consumer."""

from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer


class Consumer(AsyncWebsocketConsumer):
    """Calls the handler itself: Channels goes through a thread first, to close database connections nobody opened."""

    async def dispatch(self, message: dict[str, Any]) -> None:
        await getattr(self, message["type"].replace(".", "_"))(message)
