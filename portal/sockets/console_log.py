"""The live console log of a server."""

import asyncio

from portal.common.sign_in import token_of_cookies
from portal.common.websockets import handshake
from portal.sockets.follower import Follower
from portal.sockets.guest_logs import LogEndedError, guest_logs
from provisioning.common.processes.threads import SOCKETS
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance

PAUSE = 0.15
"""Seconds between two chunks, so that a guest that writes continuously does not overload the browser."""


class ConsoleLogConsumer(Follower):
    """``/ws/dashboard/servers/<id>/console-log?offset=<number>``.

    Sends ``{"text": "…", "start": m, "offset": n}``, untrusted text of the guest between two offsets; a ``start`` other
    than the last ``offset`` means that text in between was discarded. Sends ``{"error": "…"}`` while the log cannot be
    read.
    """

    rule = "os_compute_api:os-console-output"
    _instance: Instance

    def token(self) -> str:
        """The token of the browser's session."""
        return token_of_cookies(handshake.cookies(self.scope))

    def admit(self) -> None:
        """Read the server; raises NotFoundError if the caller may not see it."""
        self._instance = compute.instance_for(self.context, self.scope["url_route"]["kwargs"]["instance_id"])

    async def serve(self) -> None:
        """Send the log from the page's offset, by default the last lines, and then new text."""
        self._offset = handshake.number(self.scope, "offset")
        while True:
            try:
                await self._follow()
            except LogEndedError as error:
                if error.message:
                    await self.send_json({"error": error.message})
                await asyncio.sleep(error.pause)
            await SOCKETS.run(self.admit)  # the server may have been migrated or deleted

    async def _follow(self) -> None:
        """Send chunks, each after the page has received the previous one. Raises LogEndedError."""
        async with guest_logs.following(self._instance) as log:
            while True:
                piece = await log.after(self._offset)
                self._offset = piece.offset
                await self.send_json(piece._asdict())
                await asyncio.sleep(PAUSE)
