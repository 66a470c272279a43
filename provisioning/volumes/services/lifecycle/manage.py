"""Manage and unmanage, as in Cinder: a disk in a pool without a record becomes a volume, or the other way round."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import (
    VOLUME,
    CreateVolumeRequest,
    UnmanagedDisk,
    UnmanagedDisks,
    UnmanagedDisksCall,
    UnmanageVolumeRequest,
    VolumeSource,
)
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ForbiddenError, InvalidInputError, UnavailableError
from provisioning.common.values.numbers import GIB
from provisioning.hosts import calls, commands
from provisioning.quotas.services.ledger import hold
from provisioning.scheduler.pools import decide_pool
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.host_link.host_commands import NO_HOST, hosts_of, send, spec_of
from provisioning.volumes.models import Attachment, Snapshot, StoragePool, Volume, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import quota
from provisioning.volumes.records.announcements import announce
from provisioning.volumes.selectors import default_type, type_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import (
    check_in_no_group,
    check_metadata,
    check_size,
    check_texts,
    pool_of,
)
from provisioning.volumes.services.lifecycle.delete import end_reported
from provisioning.volumes.services.user_tasks import UserVolumeTask
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import deadline_of
from provisioning.volumes.states import VolumeStatus

PATIENCE = 10.0
"""Seconds to wait for a host's list of the contents of a pool."""


@dataclass(frozen=True, slots=True)
class ManageRequest:
    """The parameters for managing a disk as a volume."""

    name_in_pool: str
    name: str = ""
    description: str = ""
    volume_type: str = ""
    bootable: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


def size_of(disk: UnmanagedDisk) -> int:
    """Return the size in GiB of a volume that is created from this disk."""
    return max(-(-disk.size // GIB), 1)


def manageable(pool: StoragePool) -> list[UnmanagedDisk]:
    """Return the unmanaged disks in a pool, as a host reports them now.  Raises UnavailableError."""
    if pool.capabilities.get("manage") != "true":
        return []
    host = next(iter(hosts_of(pool)), None)
    if host is None:
        raise UnavailableError(NO_HOST)
    answer = calls.call(host.id, UnmanagedDisksCall(pool_id=str(pool.id)), PATIENCE)
    if not isinstance(answer, UnmanagedDisks):
        raise UnavailableError("The pool's host could not list its contents.")
    return answer.disks


def manage_volume(context: RequestContext, pool: StoragePool, request: ManageRequest) -> Volume:
    """Create a volume of the caller's project from a disk in a pool.

    1. Ask the pool's host for the disk.
    2. In one transaction, reserve the quota, claim capacity, create the record and send the command.

    Raises InvalidInputError for an unsuitable disk or type, NotFoundError, OverQuotaError, UnavailableError.
    """
    check_texts(request.name, request.description)
    check_metadata(request.metadata)
    if pool.capabilities.get("manage") != "true":
        raise InvalidInputError(f"A {pool.driver} pool cannot manage disks.", field="host")
    disk = next((each for each in manageable(pool) if each.name == request.name_in_pool), None)
    if disk is None:
        msg = f"The pool has no unmanaged disk {request.name_in_pool[:255]!r}."
        raise InvalidInputError(msg, field="ref")
    if disk.reason:
        raise InvalidInputError(f"Disk {disk.name[:255]} cannot be managed. {disk.reason}", field="ref")
    return _manage(context, pool, request, disk)


@when_broken_off
@transaction.atomic
def _manage(context: RequestContext, pool: StoragePool, request: ManageRequest, disk: UnmanagedDisk) -> Volume:
    if context.project_id is None:
        raise ForbiddenError("A volume needs a project.")
    kind = type_for(context, request.volume_type) if request.volume_type else default_type(context.project_id)
    size = check_size(context.project_id, size_of(disk))
    _check_type(context, pool, kind)
    key = uuid.uuid4()
    hold(context.project_id, key, quota.of_volume(kind, size))
    if not placement.claim(pool.id, size):
        raise InvalidInputError("The storage pool has no space, or is disabled.", field="host")
    volume = Volume.objects.create(
        id=key,
        project_id=context.project_id,
        user_id=context.user_id,
        name=request.name,
        description=request.description,
        size_gb=size,
        status=VolumeStatus.CREATING,
        volume_type=kind,
        pool=pool,
        availability_zone=pool.availability_zone,
        multiattach=placement.allows_multiattach(kind),
        bootable=request.bootable,
        metadata=dict(request.metadata),
        deadline=deadline_of(VolumeStatus.CREATING),
    )
    announce(volume, "create.start")
    send(volume, CreateVolumeRequest(volume=spec_of(volume), source=VolumeSource(unmanaged=disk.name)))
    return volume


def _check_type(context: RequestContext, pool: StoragePool, kind: VolumeType | None) -> None:
    if hasattr(kind, "encryption"):
        raise InvalidInputError("A managed disk is not encrypted: choose an unencrypted type.", field="volume_type")
    own = [each for each in placement.pool_views() if each.id == pool.id]
    request = placement.request_of(context, size_gb=0, volume_type=kind)
    if not decide_pool(own, request).ranked:
        raise InvalidInputError("The pool does not meet the requirements of the type, or is disabled.", field="host")


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
