"""The volumes that a scripted agent remembers, by the agent's own code."""

from __future__ import annotations

from typing import Any

from compute_agent.engine.store import StateStore
from compute_agent.volumes.memory import VolumeMemory


class RememberedVolumes:
    """An agent's memory of volumes: made when it is first needed, and copied with what it has."""

    _store: StateStore | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._store is None:
            self._store = StateStore(None)
        return getattr(VolumeMemory(self._store), name)

    def __getstate__(self) -> bytes:
        return b"" if self._store is None else self._store._db.serialize()

    def __setstate__(self, kept: bytes) -> None:
        if kept:
            self._store = StateStore(None)
            self._store._db.deserialize(kept)
