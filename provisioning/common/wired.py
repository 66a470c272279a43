"""Entries that higher layers provide to a lower layer, which cannot import them; ``provisioning.wiring``
connects all.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class HasName(Protocol):
    """An entry with a name."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=HasName)


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


class WiredByName(Mapping[str, N], Generic[N]):
    """Name → entry, connected like ``Wired``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries: Mapping[str, N] | None = None

    def connect(self, *entries: N) -> None:
        """Raises ValueError for two entries with the same name."""
        if self._entries is not None:
            raise RuntimeError(f"{self._name} are connected already.")
        self._entries = by_name(self._name, *entries)

    def __getitem__(self, name: str) -> N:
        return self._connected()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._connected())

    def __len__(self) -> int:
        return len(self._connected())

    def _connected(self) -> Mapping[str, N]:
        if self._entries is None:
            raise RuntimeError(f"{self._name} are not connected: provisioning.wiring has not run.")
        return self._entries


def by_name(kind: str, *entries: N) -> dict[str, N]:
    """Return name → entry. Raises ValueError for two entries with the same name; ``kind`` is for its message."""
    result: dict[str, N] = {}
    for entry in entries:
        if result.setdefault(entry.name, entry) is not entry:
            raise ValueError(f"{kind}: two are called {entry.name!r}.")
    return result
