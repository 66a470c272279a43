"""Unique small numbers, for example of links between routers and external networks, stored across restarts."""

from collections.abc import Collection
from pathlib import Path

import msgspec


class Numbers:
    """A number for each router, from 1, small and unique."""

    def __init__(self, path: Path) -> None:
        """``path``: a JSON file with router id → number. It is created when the first number is allocated."""
        self._path = path
        self._given: dict[str, int] = {}
        if path.exists():
            self._given = msgspec.json.decode(path.read_bytes(), type=dict[str, int])

    def of(self, router_id: str) -> int:
        """Return the router's number. If it has none, the lowest free number is allocated."""
        if router_id not in self._given:
            taken = set(self._given.values())
            self._given[router_id] = next(number for number in range(1, len(taken) + 2) if number not in taken)
            self._keep()
        return self._given[router_id]

    def names(self) -> dict[int, str]:
        """Return number → router id."""
        return {number: router_id for router_id, number in self._given.items()}

    def others(self, router_ids: Collection[str]) -> set[int]:
        """Return the numbers that ``keep_only`` would release."""
        return {number for router_id, number in self._given.items() if router_id not in router_ids}

    def keep_only(self, router_ids: Collection[str]) -> None:
        """Release the numbers of all routers except these."""
        left = {router_id: number for router_id, number in self._given.items() if router_id in router_ids}
        if left != self._given:
            self._given = left
            self._keep()

    def _keep(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(self._given))
        part.replace(self._path)
