"""A script's socket: the project's events as JSON."""

from __future__ import annotations

from portal.live import handshake
from portal.live.follower import Follower


class ScriptsConsumer(Follower):
    """``/ws/v1/events?since=<number>`` with ``X-Auth-Token``.

    Sends ``{"hello": n}`` first, then ``{"id": n, "kind": "…", "payload": {…}}`` for each event of the token's project;
    ``{"resync": true, "id": n}`` when events were missed that are not kept any more.  An event may come twice.
    """

    rule = "live:events:follow"
    own_pages_only = False  # no page can send the header

    def token(self) -> str:
        """The token in the header."""
        return handshake.header(self.scope, "x-auth-token")

    async def serve(self) -> None:
        """Send what was missed, then what happens."""
        events = await self.begin()
        while True:
            if events is None:
                await self.send_json({"resync": True, "id": self.cursor})
            for event in events or ():
                await self.send_json({"id": event.id, "kind": event.kind, "payload": event.payload})
            events = await self.news()
