"""The console log of a server, following live."""

import asyncio

from portal.common import handshake
from portal.common.sign_in import token_of_cookies
from portal.sockets.follower import Follower
from portal.sockets.guest_logs import LogEndedError, guest_logs
from provisioning.common.threads import SOCKETS
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance

PAUSE = 0.15
"""Seconds between two pieces: a guest that writes without end fills no browser."""


class ConsoleLogConsumer(Follower):
    """``/ws/dashboard/servers/<id>/console-log?offset=<number>``.

    Sends ``{"text": "…", "start": m, "offset": n}``, text that the guest wrote and that is hostile, from one offset to
    the other: a ``start`` that is not the last ``offset`` means that some is not kept; ``{"error": "…"}`` while it
    cannot be read.
    """

    rule = "os_compute_api:os-console-output"
    _instance: Instance

    def token(self) -> str:
        """The token of the browser's session."""
        return token_of_cookies(handshake.cookies(self.scope))

    def admit(self) -> None:
        """The server must be the caller's; raises NotFoundError."""
        self._instance = compute.instance_for(self.context, self.scope["url_route"]["kwargs"]["instance_id"])

    async def serve(self) -> None:
        """Send from the offset the page has, or the last lines, then whatever is written."""
        self._offset = handshake.number(self.scope, "offset")
        while True:
            try:
                await self._follow()
            except LogEndedError as error:
                if error.said:
                    await self.send_json({"error": error.said})
                await asyncio.sleep(error.pause)
            await SOCKETS.run(self.admit)  # it may be on another host now, or gone

    async def _follow(self) -> None:
        """Send pieces, each when the page has taken the one before.  Raises LogEndedError."""
        async with guest_logs.following(self._instance) as log:
            while True:
                piece = await log.after(self._offset)
                self._offset = piece.offset
                await self.send_json(piece._asdict())
                await asyncio.sleep(PAUSE)
