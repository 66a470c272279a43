"""Entries that higher layers provide to a lower layer, which cannot import them; ``provisioning.wiring``
connects all.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Wired(Generic[T]):
    """A list that is connected once, when Django has loaded the models.

    Raises RuntimeError when it is read before it is connected, or connected twice.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries: tuple[T, ...] | None = None

    def connect(self, *entries: T) -> None:
        if self._entries is not None:
            raise RuntimeError(f"{self._name} are connected already.")
        self._entries = entries

    def __iter__(self) -> Iterator[T]:
        return iter(self._connected())

    def __len__(self) -> int:
        return len(self._connected())

    def only(self) -> T:
        """Return the only entry. Raises ValueError when there are none or several."""
        (entry,) = self._connected()
        return entry

    def _connected(self) -> tuple[T, ...]:
        if self._entries is None:
            raise RuntimeError(f"{self._name} are not connected: provisioning.wiring has not run.")
        return self._entries
