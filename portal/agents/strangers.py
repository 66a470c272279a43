"""Limits of unauthenticated links, for each address and in total, in one process."""

from collections import Counter

MOST_OF_ADDRESS = 16
MOST = 256


class Strangers:
    """Counts open links by remote address; used only in the event loop."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a link, unless the address or the process is at its limit."""
        if self._open[address] >= MOST_OF_ADDRESS or self._open.total() >= MOST:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Remove a link from the count."""
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]
