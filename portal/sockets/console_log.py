"""The console log of a server, following live: asked of its host again and again, each time waiting for more."""

import asyncio
from typing import Any

from compute_agent.contract.messages import CallError, ConsoleOutput, ConsoleOutputCall
from portal.common import handshake
from portal.common.sign_in import token_of_cookies
from portal.sockets.follower import Follower
from provisioning.common.errors import UnavailableError
from provisioning.common.threads import SOCKETS
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.hosts import calls

FIRST_LINES = 400
MOST_BYTES = 65_536
"""Of one piece."""
WAIT = 20.0
"""Seconds the host waits for the guest to write something."""
ANSWER_WITHIN = WAIT + 10.0
PAUSE = 0.15
"""Seconds between two pieces: a guest that writes without end fills no browser."""
NOT_YET_PAUSE = 1.0
RETRY_PAUSE = 5.0


class ConsoleLogConsumer(Follower):
    """``/ws/dashboard/servers/<id>/console-log?offset=<number>``.

    Sends ``{"text": "…", "offset": n}``, text that the guest wrote and that is hostile; ``{"error": "…"}`` while it
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
        offset = handshake.number(self.scope, "offset")
        while True:
            result = await self._ask(offset)
            if isinstance(result, ConsoleOutput):
                if result.text or offset is None:
                    await self.send_json({"text": result.text, "offset": result.offset})
                offset = result.offset
                await asyncio.sleep(PAUSE)
                continue
            await asyncio.sleep(result)
            await SOCKETS.run(self.admit)  # it may be on another host now, or gone

    async def _ask(self, offset: int | None) -> ConsoleOutput | float:
        """The next piece, or the seconds until it makes sense to ask again."""
        host_id = self._instance.host_id
        if host_id is None:
            return NOT_YET_PAUSE
        lines = FIRST_LINES if offset is None else None
        question = ConsoleOutputCall(
            instance_id=str(self._instance.id), lines=lines, offset=offset, wait=WAIT, max_bytes=MOST_BYTES
        )
        try:
            result: Any = await calls.acall(host_id, question, timeout=ANSWER_WITHIN)
        except UnavailableError as error:
            await self.send_json({"error": error.message})
            return RETRY_PAUSE
        if isinstance(result, ConsoleOutput):
            return result
        if isinstance(result, CallError) and result.code != "not_found":
            await self.send_json({"error": "The console log cannot be read now."})
            return RETRY_PAUSE
        return NOT_YET_PAUSE
