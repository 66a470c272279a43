"""Creates, updates and deletes snapshots of volumes, attached or not.

creating → available → deleting → deleted; error and error_deleting with a message.
"""

import uuid
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import AgentEvent, decode_command_body
from compute_agent.contract.volume import (
    DeleteSnapshotRequest,
    RevertVolumeRequest,
    SnapshotCommand,
    SnapshotVolumeRequest,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.tasks import P, UserTask
from provisioning.quotas.services.ledger import hold
from provisioning.volumes.errors import InvalidSnapshotError, InvalidVolumeError, SnapshotNotFoundError
from provisioning.volumes.host_link.host_commands import open_commands, send, spec_of
from provisioning.volumes.models import GroupSnapshot, Snapshot, Volume
from provisioning.volumes.records import quota
from provisioning.volumes.records.announcements import announce_snapshot
from provisioning.volumes.selectors import snapshot_for
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_free, check_metadata, check_texts, check_thawed, pool_of
from provisioning.volumes.services.lifecycle.create import Create
from provisioning.volumes.services.lifecycle.delete import DELETABLE_SNAPSHOTS, Delete, end_snapshot
from provisioning.volumes.services.user_tasks import Deletion, OfVolume, UserVolumeTask
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status, deadline_of
from provisioning.volumes.states import SnapshotStatus, VolumeStatus
from provisioning.volumes.tasks import C, SnapshotTask

RESETTABLE = frozenset(
    {SnapshotStatus.AVAILABLE, SnapshotStatus.CREATING, SnapshotStatus.DELETING, SnapshotStatus.ERROR}
    | {SnapshotStatus.ERROR_DELETING}
)

FOLLOWING = {
    SnapshotStatus.CREATING: (SnapshotStatus.CREATING, SnapshotStatus.AVAILABLE, SnapshotStatus.ERROR),
    SnapshotStatus.DELETING: (SnapshotStatus.DELETING, SnapshotStatus.ERROR_DELETING),
}
"""Status of a snapshot → the statuses that ``os-update_snapshot_status`` may set."""


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A request for a snapshot of a volume; ``force``: also while the volume is attached."""

    name: str = ""
    description: str = ""
    force: bool = False
    metadata: Mapping[str, str] | None = None
    group_snapshot: GroupSnapshot | None = None


Q = TypeVar("Q", bound=SnapshotRequest)


@transaction.atomic
def update_snapshot(
    context: RequestContext, snapshot_id: str | uuid.UUID, *, name: str | None = None, description: str | None = None
) -> Snapshot:
    """Update a snapshot; None leaves a value unchanged."""
    check_texts(name, description)
    snapshot, _ = _locked(context, snapshot_id)
    snapshot.name = snapshot.name if name is None else name
    snapshot.description = snapshot.description if description is None else description
    snapshot.save(update_fields=["name", "description", "updated_at"])
    announce_snapshot(snapshot, "update.end")
    return snapshot


@transaction.atomic
def set_snapshot_metadata(
    context: RequestContext, snapshot_id: str | uuid.UUID, metadata: Mapping[str, str], *, replace: bool = False
) -> Snapshot:
    """Add metadata to a snapshot, or (``replace``) replace all of it."""
    snapshot, _ = _locked(context, snapshot_id)
    snapshot.metadata = dict(metadata) if replace else {**snapshot.metadata, **metadata}
    check_metadata(snapshot.metadata)
    snapshot.save(update_fields=["metadata", "updated_at"])
    announce_snapshot(snapshot)
    return snapshot


@transaction.atomic
def delete_snapshot_metadata(context: RequestContext, snapshot_id: str | uuid.UUID, key: str) -> None:
    """Remove one item.  Raises NotFoundError if it does not exist."""
    snapshot, _ = _locked(context, snapshot_id)
    if key not in snapshot.metadata:
        raise NotFoundError(f"Snapshot {snapshot.id} has no metadata with key {key[:255]}.")
    snapshot.metadata = {name: value for name, value in snapshot.metadata.items() if name != key}
    snapshot.save(update_fields=["metadata", "updated_at"])
    announce_snapshot(snapshot)


@transaction.atomic
def reset_snapshot_status(context: RequestContext, snapshot_id: str | uuid.UUID, status: str) -> Snapshot:
    """Set a snapshot's status for an operator.  Raises ForbiddenError, InvalidInputError."""
    if not context.is_admin:
        raise ForbiddenError("Only operators may reset the status of a snapshot.")
    if status not in RESETTABLE:
        raise InvalidInputError(f"A snapshot cannot be set to the status {status[:64]!r}.", field="status")
    snapshot, _ = _locked(context, snapshot_id)
    return _move(snapshot, SnapshotStatus(status))


@transaction.atomic
def update_snapshot_status(
    context: RequestContext, snapshot_id: str | uuid.UUID, status: str, progress: str | None = None
) -> Snapshot:
    """Set the status and progress of a snapshot that is being created or deleted, as Cinder's
    ``os-update_snapshot_status``.

    ``progress`` is a percentage, ``"42%"``. A snapshot becomes available when its host reports it; only operators may
    set this status, and not while a host works on the snapshot. Raises InvalidInputError for a status that is not in
    ``FOLLOWING``.
    """
    snapshot, volume = _locked(context, snapshot_id)
    if status not in FOLLOWING.get(SnapshotStatus(snapshot.status), ()):
        raise InvalidInputError(f"A snapshot that is {snapshot.status} cannot become {status[:64]!r}.", field="status")
    if status == SnapshotStatus.AVAILABLE and (not context.is_admin or _is_in_creation(snapshot, volume)):
        raise InvalidInputError(f"Snapshot {snapshot.id} is not complete yet.", field="status")
    done = int(progress.rstrip("%")) if progress else snapshot.progress
    same = status == snapshot.status
    return _move(
        snapshot, SnapshotStatus(status), deadline=snapshot.deadline if same else None, progress=min(done, 100)
    )


def _is_in_creation(snapshot: Snapshot, volume: Volume) -> bool:
    """Return whether a host has an unfinished command to create the snapshot."""
    bodies = [decode_command_body(command.body) for command in open_commands(volume.id)]
    return any(isinstance(body, SnapshotCommand) and body.snapshot_id == str(snapshot.id) for body in bodies)


def _locked(context: RequestContext, snapshot_id: str | uuid.UUID) -> tuple[Snapshot, Volume]:
    """Return a visible snapshot and its volume, locked."""
    seen = snapshot_for(context, snapshot_id)
    volume = state.lock([seen.volume_id]).get(seen.volume_id)
    snapshot = Snapshot.objects.filter(id=seen.id).first()
    if volume is None or snapshot is None:
        raise SnapshotNotFoundError(snapshot_id)
    snapshot.volume = volume
    return snapshot, volume


def _move(
    snapshot: Snapshot, status: SnapshotStatus, *notices: str, deadline: object = None, progress: int = 0
) -> Snapshot:
    snapshot.status, snapshot.deadline, snapshot.progress = status, deadline, progress  # type: ignore[assignment]
    snapshot.save(update_fields=["status", "deadline", "progress", "updated_at"])
    announce_snapshot(snapshot, *notices)
    if snapshot.group_snapshot_id is not None:
        _settle_group_snapshot(snapshot.group_snapshot_id)
    return snapshot


def _settle_group_snapshot(group_snapshot_id: uuid.UUID) -> None:
    """End the creation of a group snapshot when none of its snapshots is being created, or one has failed."""
    statuses = set(Snapshot.objects.filter(group_snapshot_id=group_snapshot_id).values_list("status", flat=True))
    failed = SnapshotStatus.ERROR in statuses
    if SnapshotStatus.CREATING in statuses and not failed:
        return
    rows = GroupSnapshot.objects.filter(id=group_snapshot_id, status=SnapshotStatus.CREATING)
    rows.update(status=SnapshotStatus.ERROR if failed else SnapshotStatus.AVAILABLE, updated_at=timezone.now())


class NewSnapshot(OfVolume[Q, Snapshot], SnapshotTask[C], Generic[Q, C]):
    """A task that creates the record of a snapshot, and completes it when a host reports the data."""

    legal_from = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE)
    refused = InvalidVolumeError
    notification = "create"
    awaited_in = (SnapshotStatus.CREATING, SnapshotStatus.ERROR)
    failure: ClassVar[messages.Action]
    """For the message about a failure."""

    def start(self, context: RequestContext, volume: Volume, request: Q) -> Snapshot:
        """Create the record and send the command. Raises InvalidVolumeError, InvalidInputError, OverQuotaError."""
        check_texts(request.name, request.description)
        check_metadata(request.metadata or {})
        check_thawed(volume)
        pool_of(volume)
        if volume.migration_status not in ("", "none", "success", "error"):
            raise InvalidVolumeError(f"Volume {volume.id} is being migrated.")
        key, size_gb = uuid.uuid4(), self.size_of(volume, request)
        hold(volume.project_id, key, quota.of_snapshot(volume, size_gb))
        snapshot = Snapshot.objects.create(
            id=key,
            project_id=volume.project_id,
            user_id=context.user_id,
            volume=volume,
            name=request.name,
            description=request.description,
            size_gb=size_gb,
            metadata=dict(request.metadata or {}),
            group_snapshot=request.group_snapshot,
            deadline=deadline_of(VolumeStatus.CREATING),
        )
        announce_snapshot(snapshot, self.start_of())
        send(volume, self.command(volume, key, request), status=VolumeStatus.CREATING, beside=True)
        return snapshot

    def size_of(self, volume: Volume, request: Q) -> int:
        """Return the size of the snapshot in GiB."""
        return volume.size_gb

    @abstractmethod
    def command(self, volume: Volume, key: uuid.UUID, request: Q) -> CommandBody:
        """Return the command for the host. ``key``: the id of the snapshot."""

    def finished(self, snapshot: Snapshot, event: AgentEvent, body: C, host_id: uuid.UUID) -> None:
        _move(snapshot, SnapshotStatus.AVAILABLE, self.end_of(), progress=100)

    def failed(self, snapshot: Snapshot, reason: str) -> None:
        messages.of_snapshot(snapshot, self.failure, reason)
        _move(snapshot, SnapshotStatus.ERROR)


class CreateSnapshot(NewSnapshot[SnapshotRequest, SnapshotVolumeRequest]):
    """Create a snapshot of the volume's current data."""

    rule = "volume:create_snapshot"
    body = SnapshotVolumeRequest
    timeouts = {SnapshotStatus.CREATING: Create.timeouts[VolumeStatus.CREATING]}
    when_overdue = "the snapshot is in `error`, with a message"
    failure = messages.SNAPSHOT_CREATE

    def allowed(self, request: SnapshotRequest) -> Collection[str]:
        return self.legal_from if request.force else (VolumeStatus.AVAILABLE,)

    def command(self, volume: Volume, key: uuid.UUID, request: SnapshotRequest) -> SnapshotVolumeRequest:
        return SnapshotVolumeRequest(volume=spec_of(volume), snapshot_id=str(key))


class EndSnapshot(UserTask[Snapshot, P, None], SnapshotTask[C], Generic[P, C]):
    """A task that deletes the record of a snapshot when a host has carried out the command."""

    status: ClassVar[SnapshotStatus]
    """The status during the task."""
    notification = "delete"
    failure: ClassVar[messages.Action]
    """For the message about a failure."""

    def locked(self, context: RequestContext, key: str | uuid.UUID) -> Snapshot:
        snapshot, _ = _locked(context, key)
        return snapshot

    def start(self, context: RequestContext, snapshot: Snapshot, request: P) -> None:
        """Send the command.  Raises InvalidSnapshotError, and InvalidVolumeError if the volume must not be changed."""
        volume = snapshot.volume
        if snapshot.group_snapshot_id is not None and not self.is_forced(request):
            raise InvalidSnapshotError(f"Snapshot {snapshot.id} belongs to a group snapshot.")
        check_thawed(volume)
        if volume.status == VolumeStatus.REVERTING:
            raise InvalidSnapshotError(f"Volume {volume.id} is being reverted.")
        _move(snapshot, self.status, self.start_of(), deadline=deadline_of(self.status))
        send(volume, self.command(snapshot), status=self.status, beside=True)

    def is_forced(self, request: P) -> bool:
        """Return whether a snapshot of a group snapshot is accepted."""
        return False

    @abstractmethod
    def command(self, snapshot: Snapshot) -> CommandBody:
        """Return the command for the host."""

    def finished(self, snapshot: Snapshot, event: AgentEvent, body: C, host_id: uuid.UUID) -> None:
        try:
            end_snapshot(snapshot)
        except ProtectedError:
            self.failed(snapshot, "Something still refers to it.")

    def failed(self, snapshot: Snapshot, reason: str) -> None:
        messages.of_snapshot(snapshot, self.failure, reason)
        _move(snapshot, SnapshotStatus.ERROR_DELETING)


class DeleteSnapshot(EndSnapshot[Deletion, DeleteSnapshotRequest]):
    """Delete the data of a snapshot."""

    rule = "volume:delete_snapshot"
    body = DeleteSnapshotRequest
    legal_from = DELETABLE_SNAPSHOTS
    status = SnapshotStatus.DELETING
    timeouts = {SnapshotStatus.DELETING: Delete.timeouts[VolumeStatus.DELETING]}
    when_overdue = "the snapshot is in `error_deleting`; it can be deleted again"
    awaited_in = (SnapshotStatus.DELETING, SnapshotStatus.ERROR_DELETING)
    failure = messages.SNAPSHOT_DELETE

    def allowed(self, request: Deletion) -> Collection[str]:
        return SnapshotStatus.values if request.force else self.legal_from

    def is_forced(self, request: Deletion) -> bool:
        return request.force

    def command(self, snapshot: Snapshot) -> DeleteSnapshotRequest:
        return DeleteSnapshotRequest(volume=spec_of(snapshot.volume), snapshot_id=str(snapshot.id))


class Revert(UserVolumeTask[str, RevertVolumeRequest]):
    """Write the data of a volume's newest snapshot back to the volume, which is not attached. The request is the id of
    the snapshot.
    """

    rule = "volume:revert_to_snapshot"
    legal_from = (VolumeStatus.AVAILABLE,)
    status = VolumeStatus.REVERTING
    body = RevertVolumeRequest
    notification = "revert"
    timeouts = by_status({VolumeStatus.REVERTING: 10 * MINUTE})
    when_overdue = "the volume is in `error`, with a message: its data is undefined"
    awaited_in = (VolumeStatus.REVERTING, VolumeStatus.ERROR)

    def prepare(self, context: RequestContext, volume: Volume, request: str) -> Mapping[str, Any]:
        """Raise InvalidInputError for another snapshot than the newest one, and InvalidSnapshotError."""
        snapshot = snapshot_for(context, request)
        newest = Snapshot.objects.filter(volume_id=volume.id).order_by("-created_at", "-id").first()
        check_free(volume)
        if newest is None or newest.id != snapshot.id:
            msg = f"Snapshot {snapshot.id} is not the newest of volume {volume.id}."
            raise InvalidInputError(msg, field="snapshot_id")
        if snapshot.status != SnapshotStatus.AVAILABLE:
            raise InvalidSnapshotError(f"Snapshot {snapshot.id} is {snapshot.status}; it must be available.")
        if snapshot.size_gb != volume.size_gb:
            raise InvalidInputError(f"Volume {volume.id} has been extended since the snapshot.", field="snapshot_id")
        return {}

    def command(self, context: RequestContext, volume: Volume, request: str) -> RevertVolumeRequest:
        return RevertVolumeRequest(volume=spec_of(volume), snapshot_id=str(uuid.UUID(request)))

    def finished(self, volume: Volume, event: AgentEvent, body: RevertVolumeRequest, host_id: uuid.UUID) -> None:
        state.end_task(volume, self.end_of())

    def failed(self, volume: Volume, reason: str) -> None:
        """Set the volume to ``error``: its data is undefined."""
        messages.of_volume(volume, messages.REVERT, reason)
        if volume.status == VolumeStatus.REVERTING:
            state.move(volume, VolumeStatus.ERROR)
