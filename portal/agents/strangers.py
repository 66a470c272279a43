"""Links that have shown no credential yet: few of an address and few in all may be open in one process."""

from collections import Counter

MOST_OF_ADDRESS = 16
MOST = 256


class Strangers:
    """Counts open links by the address that they come from; used in the event loop alone."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count one more, unless the address or the process has its share already."""
        if self._open[address] >= MOST_OF_ADDRESS or self._open.total() >= MOST:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count one less."""
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]
