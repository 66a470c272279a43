"""The workers of a host: the limit of parallel commands that copy much data, and the owners' shares of it."""

import asyncio
from collections import Counter, deque

from compute_agent.engine.context import Cancellation


class Workers:
    """A number of workers, assigned in order of arrival. No owner can use all of them.

    For the event loop's thread only.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._share = max(number - 1, 1)
        """Limit of workers for one owner. If there are several workers, one is always left for other owners."""
        self._held: Counter[str] = Counter()
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    async def acquire(self, owner: str, cancellation: Cancellation) -> bool:
        """Wait for a worker. Return False if the command is cancelled first.

        ``owner``: the command's owner, who may have only a share of the workers; empty: no owner and no such limit.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, turn))
        self._serve()
        stop = asyncio.ensure_future(cancellation.wait())
        try:
            await asyncio.wait((turn, stop), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._leave(owner, turn)
            raise
        finally:
            stop.cancel()
        if cancellation.event.is_set():
            self._leave(owner, turn)
            return False
        return True

    def release(self, owner: str) -> None:
        """Release the worker to the next command."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._serve()

    def _leave(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Stop waiting for a worker. If one was assigned in the meantime, release it."""
        if turn.done():
            self.release(owner)
        else:
            self._waiting.remove((owner, turn))

    def _serve(self) -> None:
        for owner, turn in list(self._waiting):
            if not self._free:
                return
            if owner and self._held[owner] >= self._share:
                continue
            self._waiting.remove((owner, turn))
            self._free -= 1
            self._held[owner] += 1
            turn.set_result(None)
