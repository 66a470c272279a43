"""Manage and unmanage snapshots, as in Cinder: create the record of a snapshot in a pool, or delete only the record."""

import uuid
from dataclasses import dataclass, replace

from compute_agent.contract.volume import (
    ManageSnapshotRequest,
    PoolContents,
    PoolContentsCall,
    UnmanagedDisk,
    UnmanageSnapshotRequest,
    is_unmanaged,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.host_link.host_commands import data_id_of, spec_of
from provisioning.volumes.models import Snapshot, StoragePool, Volume
from provisioning.volumes.selectors import volume_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import pool_of
from provisioning.volumes.services.lifecycle.manage import ask, gib, manageable
from provisioning.volumes.services.lifecycle.snapshots import EndSnapshot, NewSnapshot, SnapshotRequest
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import SnapshotStatus


@dataclass(frozen=True, slots=True)
class ManagedSnapshot(SnapshotRequest):
    """The parameters for managing a snapshot in a pool. ``size_gb`` is the host's answer."""

    name_in_pool: str = ""
    size_gb: int = 0


@dataclass(frozen=True, slots=True)
class UnmanagedSnapshot:
    """A snapshot in a pool that has no record. The record of its volume exists."""

    volume: Volume
    name: str
    size_gb: int


def manageable_snapshots(pool: StoragePool) -> list[UnmanagedSnapshot]:
    """Return the unmanaged snapshots in a pool, as a host reports them now. Raises UnavailableError.

    A snapshot is not larger than its volume.
    """
    rows = Volume.objects.filter(pool=pool, migration_of=None)
    columns = ("id", "data_id", "size_gb", "name", "project_id")
    volumes = {data_id_of(volume): volume for volume in rows.only(*columns)}
    return [
        UnmanagedSnapshot(volume, name, min(gib(size), volume.size_gb))
        for stored in ask(pool, PoolContentsCall(pool_id=str(pool.id)), PoolContents).volumes
        if not stored.gone and (volume := volumes.get(stored.id)) is not None
        for name, size in stored.unmanaged.items()
        if is_unmanaged(name)
    ]


def unmanaged_in(pool: StoragePool) -> tuple[list[UnmanagedDisk], list[UnmanagedSnapshot]]:
    """Return the unmanaged disks and snapshots in a pool by name. Raises UnavailableError."""
    snapshots = sorted(manageable_snapshots(pool), key=lambda each: (each.name, each.volume.id))
    return sorted(manageable(pool), key=lambda each: each.name), snapshots


class ManageSnapshot(NewSnapshot[ManagedSnapshot, ManageSnapshotRequest]):
    """Create the record of an unmanaged snapshot of a volume, whether or not the volume is in use."""

    rule = "snapshot_extension:snapshot_manage"
    body = ManageSnapshotRequest
    failure = messages.Action("022", "manage snapshot")

    def complete(self, context: RequestContext, key: str | uuid.UUID, request: ManagedSnapshot) -> ManagedSnapshot:
        """Ask the pool's host for the snapshot. Raises InvalidInputError, UnavailableError."""
        volume = volume_for(context, key)
        self.check(volume)
        for each in manageable_snapshots(pool_of(volume)):
            if (each.volume.id, each.name) == (volume.id, request.name_in_pool):
                return replace(request, size_gb=each.size_gb)
        msg = f"Volume {volume.id} has no unmanaged snapshot {request.name_in_pool[:255]!r}."
        raise InvalidInputError(msg, field="ref")

    def size_of(self, volume: Volume, request: ManagedSnapshot) -> int:
        return request.size_gb

    def command(self, volume: Volume, key: uuid.UUID, request: ManagedSnapshot) -> ManageSnapshotRequest:
        return ManageSnapshotRequest(volume=spec_of(volume), snapshot_id=str(key), name=request.name_in_pool)


class UnmanageSnapshot(EndSnapshot[None, UnmanageSnapshotRequest]):
    """Delete a snapshot's record and leave its data in the pool, as ``snapshot-ID`` of its volume, as in Cinder."""

    rule = "snapshot_extension:snapshot_unmanage"
    body = UnmanageSnapshotRequest
    legal_from = (SnapshotStatus.AVAILABLE, SnapshotStatus.ERROR, SnapshotStatus.ERROR_DELETING)
    status = SnapshotStatus.UNMANAGING
    timeouts = by_status({SnapshotStatus.UNMANAGING: 10 * MINUTE})
    when_overdue = "the snapshot is in `error_deleting`; it can be unmanaged again"
    awaited_in = (SnapshotStatus.UNMANAGING, SnapshotStatus.ERROR_DELETING)
    failure = messages.Action("023", "unmanage snapshot")

    def command(self, snapshot: Snapshot) -> UnmanageSnapshotRequest:
        return UnmanageSnapshotRequest(
            volume=spec_of(snapshot.volume), snapshot_id=str(snapshot.id), name=f"snapshot-{snapshot.id}"
        )
