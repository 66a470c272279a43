"""A pool as a scripted host plays it: volumes, snapshots and clients by their commands, without any data."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.messages import encode
from compute_agent.contract.volume import (
    ConnectVolumeRequest,
    CreateVolumeRequest,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    FetchVolumeRequest,
    GrowVolumeRequest,
    ManageSnapshotRequest,
    PoolContents,
    PoolState,
    SnapshotCommand,
    SnapshotVolumeRequest,
    StoredVolume,
    UnmanageSnapshotRequest,
    UnmanageVolumeRequest,
    VolumeClient,
    is_unmanaged,
)


@dataclass
class ScriptedPool:
    """What one pool has."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    name: str = "local"
    driver: str = "fake"
    shared: bool = False
    total_gb: float = 100.0
    free_gb: float = 100.0
    capabilities: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, int] = field(default_factory=dict)
    """Volume → its size in GiB."""
    snapshots: dict[str, str] = field(default_factory=dict)
    """Snapshot → its volume."""
    clients: dict[str, list[VolumeClient]] = field(default_factory=dict)
    exports: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    kept: dict[str, int] | None = None
    """Deleted volumes whose data others need, and its bytes."""
    warning: str = ""
    unserved: list[str] = field(default_factory=list)
    secret: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Which two hosts that share a pool both say."""

    def state(self) -> PoolState:
        return PoolState(
            id=self.id, name=self.name, driver=self.driver, shared=self.shared, total_gb=self.total_gb,
            free_gb=self.free_gb, capabilities=self.capabilities, unserved=self.unserved,
            secret=self.secret, warning=self.warning, kept=self.kept,
        )  # fmt: skip

    def carry_out(self, body: Any) -> dict[str, str]:
        """Carry out a command well; return its report's ``detail``."""
        key = body.volume.id
        match body:
            case CreateVolumeRequest() | FetchVolumeRequest():
                self.volumes[key] = body.volume.size_gb
            case DeleteVolumeRequest() | UnmanageVolumeRequest():
                self.volumes.pop(key, None)
                self.clients.pop(key, None)
                if self.kept and key in self.kept:
                    return {"kept": str(self.kept[key])}
            case SnapshotCommand():
                self._carry_out_of_snapshot(body)
            case ConnectVolumeRequest():
                self.clients[key] = list(body.clients)
                if not body.clients:
                    del self.clients[key]
                    return {}
                return self._connection(key)
            case GrowVolumeRequest():
                self.volumes[key] = body.volume.size_gb
                return self._connection(key) if self.clients.get(key) else {}
        return {}

    def _carry_out_of_snapshot(self, body: SnapshotCommand) -> None:
        match body:
            case SnapshotVolumeRequest():
                self.snapshots[body.snapshot_id] = body.volume.id
            case DeleteSnapshotRequest():
                self.snapshots.pop(body.snapshot_id, None)
            case ManageSnapshotRequest():
                self.snapshots[body.snapshot_id] = self.snapshots.pop(body.name)
            case UnmanageSnapshotRequest():
                self.snapshots[body.name] = self.snapshots.pop(body.snapshot_id)

    def contents(self) -> PoolContents:
        """Answer a call for the volumes; each snapshot has the size of its volume."""
        stored = []
        for key, size in self.volumes.items():
            names = [name for name, volume in self.snapshots.items() if volume == key]
            unmanaged = {name: size << 30 for name in names if is_unmanaged(name)}
            stored.append(StoredVolume(id=key, snapshots=names, unmanaged=unmanaged))
        return PoolContents(volumes=stored)

    def _connection(self, key: str) -> dict[str, str]:
        name, here = f"{key}.{next(self.exports)}", [client.local for client in self.clients[key]]
        socket, port = f"/run/exports/{key}.sock" if any(here) else "", 0 if all(here) else 10809
        made = VolumeConnection(export=name, socket=socket, port=port, tls=bool(port))
        return {"connection": plain(made)}


def plain(connection: VolumeConnection) -> str:
    return encode(connection).decode()  # type: ignore[arg-type]
