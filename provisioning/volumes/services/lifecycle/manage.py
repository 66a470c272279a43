"""Manage and unmanage, as in Cinder: a disk in a pool without a record becomes a volume, or the other way round."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compute_agent.contract.calls import CallBody
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import (
    VOLUME,
    UnmanagedDisk,
    UnmanagedDisks,
    UnmanagedDisksCall,
    UnmanageVolumeRequest,
    VolumeSource,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, UnavailableError
from provisioning.common.values.numbers import GIB
from provisioning.hosts import calls, commands
from provisioning.scheduler.pools import decide_pool
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link.host_commands import NO_HOST, hosts_of, spec_of
from provisioning.volumes.models import Attachment, Snapshot, StoragePool, Volume
from provisioning.volumes.pools import placement
from provisioning.volumes.selectors import default_type, type_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_in_no_group, check_size, pool_of
from provisioning.volumes.services.lifecycle.create import NewVolume, Plan
from provisioning.volumes.services.lifecycle.delete import end_reported
from provisioning.volumes.services.user_tasks import UserVolumeTask
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus

W = TypeVar("W")
PATIENCE = 10.0
"""Seconds to wait for a host's list of the contents of a pool."""


@dataclass(frozen=True, slots=True)
class ManageRequest:
    """The parameters for managing a disk as a volume. ``size_gb`` is the host's answer."""

    pool: StoragePool
    name_in_pool: str
    size_gb: int = 0
    name: str = ""
    description: str = ""
    volume_type: str = ""
    bootable: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


def gib(size: int) -> int:
    """Return the whole GiB that a volume or snapshot of this size in bytes has."""
    return max(-(-size // GIB), 1)


def ask(pool: StoragePool, call: CallBody, answer: type[W]) -> W:
    """Ask a host of the pool. Raises UnavailableError if none answers as expected."""
    host = next(iter(hosts_of(pool)), None)
    if host is None:
        raise UnavailableError(NO_HOST)
    given = calls.call(host.id, call, PATIENCE)
    if not isinstance(given, answer):
        raise UnavailableError("The pool's host could not list its contents.")
    return given


def manageable(pool: StoragePool) -> list[UnmanagedDisk]:
    """Return the unmanaged disks in a pool, as a host reports them now.  Raises UnavailableError."""
    if pool.capabilities.get("manage") != "true":
        return []
    return ask(pool, UnmanagedDisksCall(pool_id=str(pool.id)), UnmanagedDisks).disks


class Manage(NewVolume[ManageRequest]):
    """Create a volume of the caller's project from an unmanaged disk in a pool."""

    rule = "volume_extension:volume_manage"

    def complete(self, context: RequestContext, request: ManageRequest) -> ManageRequest:
        """Ask the pool's host for the disk. Raises InvalidInputError, UnavailableError."""
        pool = request.pool
        if pool.capabilities.get("manage") != "true":
            raise InvalidInputError(f"A {pool.driver} pool cannot manage disks.", field="host")
        disk = next((each for each in manageable(pool) if each.name == request.name_in_pool), None)
        if disk is None:
            msg = f"The pool has no unmanaged disk {request.name_in_pool[:255]!r}."
            raise InvalidInputError(msg, field="ref")
        if disk.reason:
            raise InvalidInputError(f"Disk {disk.name[:255]} cannot be managed. {disk.reason}", field="ref")
        return replace(request, size_gb=gib(disk.size))

    def plan(self, context: RequestContext, project_id: uuid.UUID, request: ManageRequest) -> Plan:
        pool = request.pool
        kind = type_for(context, request.volume_type) if request.volume_type else default_type(project_id)
        size = check_size(project_id, request.size_gb)
        if hasattr(kind, "encryption"):
            raise InvalidInputError("A managed disk is not encrypted: choose an unencrypted type.", field="volume_type")
        pool_request = placement.request_of(context, size_gb=0, volume_type=kind)
        if not decide_pool([each for each in placement.pool_views() if each.id == pool.id], pool_request).ranked:
            msg = "The pool does not meet the requirements of the type, or is disabled."
            raise InvalidInputError(msg, field="host")
        columns = {"pool": pool, "bootable": request.bootable}
        return Plan(size, kind, pool_request, VolumeSource(unmanaged=request.name_in_pool), columns)

    def choose_pool(self, plan: Plan) -> tuple[uuid.UUID | None, str]:
        """Claim the capacity of the requested pool. Raises InvalidInputError."""
        pool: StoragePool = plan.columns["pool"]
        if not placement.claim(pool.id, plan.size_gb):
            raise InvalidInputError("The storage pool has no space, or is disabled.", field="host")
        return pool.id, ""


class Unmanage(UserVolumeTask[None, UnmanageVolumeRequest]):
    """Delete a volume's record and leave its data in the pool as an unmanaged disk, ``volume-ID`` as in Cinder."""

    rule = "volume_extension:volume_unmanage"
    legal_from = (VolumeStatus.AVAILABLE,)
    status = VolumeStatus.DELETING
    body = UnmanageVolumeRequest
    notification = "delete"
    awaited_in = (VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING)

    def prepare(self, context: RequestContext, volume: Volume, request: None) -> Mapping[str, Any]:
        """Raise InvalidVolumeError for a volume that cannot be unmanaged."""
        check_in_no_group(volume)
        pool = pool_of(volume)
        if Attachment.objects.filter(volume_id=volume.id).exists() or volume.migration_status == "migrating":
            raise InvalidVolumeError(f"Volume {volume.id} is in use.")
        if Snapshot.objects.filter(volume_id=volume.id).exists():
            raise InvalidVolumeError(f"Volume {volume.id} has snapshots; delete them first.")
        if volume.encryption_key:
            raise InvalidVolumeError("Unmanaging encrypted volumes is not supported, because their key would be lost.")
        if pool.capabilities.get("manage") != "true":
            raise InvalidVolumeError(f"A {pool.driver} pool cannot have unmanaged disks.")
        return {"generation": volume.generation + 1}

    def reserve(self, volume: Volume, request: None) -> None:
        """Withdraw commands that no host has acknowledged."""
        commands.withdraw(commands.unfinished(VOLUME, volume.id).filter(acknowledged_at=None))

    def command(self, context: RequestContext, volume: Volume, request: None) -> UnmanageVolumeRequest:
        return UnmanageVolumeRequest(volume=spec_of(volume), name=f"volume-{volume.id}")

    def finished(self, volume: Volume, event: AgentEvent, body: UnmanageVolumeRequest, host_id: uuid.UUID) -> None:
        end_reported(volume, event)

    def failed(self, volume: Volume, reason: str) -> None:
        messages.of_volume(volume, messages.UNMANAGE, reason)
        if volume.status == VolumeStatus.DELETING:
            state.move(volume, VolumeStatus.ERROR_DELETING)
