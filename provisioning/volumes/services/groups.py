"""Groups of volumes and their snapshots. An operation on a group is accepted for all its volumes or for none."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.quotas.services.ledger import hold, release
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Group, GroupSnapshot, Snapshot, Volume, VolumeType
from provisioning.volumes.records.announcements import announce, announce_snapshot
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors import type_for, volume_for
from provisioning.volumes.selectors.access import group_for, group_snapshot_for
from provisioning.volumes.selectors.offers import group_type_for
from provisioning.volumes.services.checks import check_texts, check_zone
from provisioning.volumes.services.lifecycle.create import Create
from provisioning.volumes.services.lifecycle.delete import delete
from provisioning.volumes.services.lifecycle.snapshots import CreateSnapshot, DeleteSnapshot, SnapshotRequest
from provisioning.volumes.services.user_tasks import Deletion
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import GroupStatus, SnapshotStatus, VolumeStatus

MEMBERS = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE)
"""Statuses in which a volume can be added to or removed from a group."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Changes of a group; None leaves a value unchanged. ``add`` and ``remove`` are volume ids."""

    name: str | None = None
    description: str | None = None
    add: Sequence[str] = ()
    remove: Sequence[str] = ()


@when_broken_off
@transaction.atomic
def create_group(
    context: RequestContext,
    group_type: str,
    volume_types: Sequence[str],
    *,
    name: str = "",
    description: str = "",
    availability_zone: str = "",
) -> Group:
    """Create a group without volumes.  Raises NotFoundError for a type, InvalidInputError, OverQuotaError."""
    check_texts(name, description)
    check_zone(availability_zone)
    kind = group_type_for(context, group_type)
    types = [type_for(context, each) for each in volume_types]
    if not types:
        raise InvalidInputError("volume_types must be provided to create group.", field="volume_types")
    made = Group(
        name=name, description=description, group_type=kind, availability_zone=availability_zone or DEFAULT_ZONE
    )
    return _saved(context, made, types)


def _saved(context: RequestContext, group: Group, types: Iterable[VolumeType]) -> Group:
    if context.project_id is None:
        raise ForbiddenError("A group needs a project.")
    group.project_id, group.user_id, group.status = context.project_id, context.user_id, GroupStatus.AVAILABLE
    hold(context.project_id, group.id, {"groups": 1})
    group.save(force_insert=True)
    group.volume_types.set(types)
    return group


@when_broken_off
@transaction.atomic
def update_group(context: RequestContext, group_id: str, change: GroupChange) -> Group:
    """Update a group's name, description and volumes."""
    check_texts(change.name, change.description)
    group = _locked(context, group_id)
    if group.status != GroupStatus.AVAILABLE:
        raise InvalidInputError(f"Group {group.id} is {group.status}; it must be available.")
    both = set(change.add) & set(change.remove)
    if both:
        raise InvalidInputError(
            f"Volume {min(both)[:64]} is in add_volumes and in remove_volumes.", field="add_volumes"
        )
    for volume in _volumes(context, change.remove):
        if volume.group_id != group.id:
            raise InvalidInputError(f"Volume {volume.id} is not in the group.", field="remove_volumes")
        _join(volume, None)
    allowed = set(group.volume_types.values_list("id", flat=True))
    for volume in _volumes(context, change.add):
        if volume.project_id != group.project_id or volume.volume_type_id not in allowed:
            raise InvalidInputError(f"The type of volume {volume.id} is not one of the group's.", field="add_volumes")
        if volume.group_id is not None:
            raise InvalidInputError(f"Volume {volume.id} is already in a group.", field="add_volumes")
        _join(volume, group)
    group.name = group.name if change.name is None else change.name
    group.description = group.description if change.description is None else change.description
    group.save(update_fields=["name", "description", "updated_at"])
    return group


def _volumes(context: RequestContext, ids: Sequence[str]) -> list[Volume]:
    try:
        seen = [volume_for(context, each) for each in dict.fromkeys(ids)]
    except NotFoundError as error:
        raise InvalidInputError(error.message) from None
    return list(state.lock([each.id for each in seen]).values())


def _join(volume: Volume, group: Group | None) -> None:
    if volume.status not in MEMBERS:
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it must be available or in-use.")
    state.update(volume, {"group": group}, "update.end")


@when_broken_off
@transaction.atomic
def delete_group(context: RequestContext, group_id: str, *, delete_volumes: bool = False) -> None:
    """Delete a group, with its volumes if ``delete_volumes``.  Raises InvalidInputError, InvalidVolumeError."""
    group = _locked(context, group_id)
    if group.group_snapshots.exists():
        raise InvalidInputError(f"Group {group.id} has group snapshots; delete them first.")
    volumes = state.lock(list(group.volumes.values_list("id", flat=True))).values()
    if volumes and not delete_volumes:
        raise InvalidInputError(f"Group {group.id} still contains volumes. The delete-volumes flag is required.")
    for volume in volumes:
        state.update(volume, {"group": None})
        delete(volume)
    release(group.id)
    Group.objects.filter(pk=group.pk).delete()


@when_broken_off
@transaction.atomic
def reset_group_status(context: RequestContext, group_id: str, status: str) -> None:
    """Set a group's status for an operator."""
    if status not in GroupStatus.values:
        raise InvalidInputError(f"Group status: {status[:64]!r} is invalid.", field="status")
    group = _locked(context, group_id)
    group.status = status
    group.save(update_fields=["status", "updated_at"])
    for volume in state.lock(list(group.volumes.values_list("id", flat=True))).values():
        announce(volume)


@when_broken_off
@transaction.atomic
def create_group_from(
    context: RequestContext,
    *,
    group_snapshot_id: str = "",
    source_group_id: str = "",
    name: str = "",
    description: str = "",
) -> Group:
    """Create a group with copies of the volumes of a group snapshot or another group.

    Raises InvalidInputError, and the errors of ``Create``.
    """
    check_texts(name, description)
    if group_snapshot_id:
        taken = group_snapshot_for(context, group_snapshot_id)
        snapshots = list(taken.snapshots.order_by("created_at", "id"))
        if taken.status != SnapshotStatus.AVAILABLE:
            raise InvalidInputError(f"Group snapshot {taken.id} is not available.", field="group_snapshot_id")
        source, requests = taken.group, [VolumeRequest(snapshot_id=str(each.id)) for each in snapshots]
    else:
        source = group_for(context, source_group_id)
        volumes = source.volumes.order_by("created_at", "id")
        requests = [VolumeRequest(source_volume_id=str(each.id)) for each in volumes]
    if not requests:
        raise InvalidInputError("There are no volumes to create a group from.")
    made = Group(
        name=name,
        description=description,
        group_type=source.group_type,
        availability_zone=source.availability_zone,
        source_group_id=None if group_snapshot_id else source.id,
        source_group_snapshot_id=uuid.UUID(group_snapshot_id) if group_snapshot_id else None,
    )
    _saved(context, made, source.volume_types.all())
    for request in requests:
        Create.begin(context, replace(request, group_id=str(made.id)))
    return made


@when_broken_off
@transaction.atomic
def create_group_snapshot(
    context: RequestContext, group_id: str, *, name: str = "", description: str = ""
) -> GroupSnapshot:
    """Create a snapshot of each volume of a group.

    Raises InvalidInputError for an empty group, and the errors of ``CreateSnapshot``.
    """
    check_texts(name, description)
    group = _locked(context, group_id)
    volumes = list(group.volumes.order_by("id"))
    if not volumes:
        raise InvalidInputError(f"Group {group.id} has no volumes.", field="group_id")
    made = GroupSnapshot.objects.create(
        project_id=group.project_id,
        user_id=context.user_id,
        name=name,
        description=description,
        group=group,
        group_type=group.group_type,
    )
    for volume in volumes:
        request = SnapshotRequest(name, description, force=True, group_snapshot=made)
        CreateSnapshot.begin(context, volume.id, request)
    return made


@when_broken_off
@transaction.atomic
def delete_group_snapshot(context: RequestContext, snapshot_id: str) -> None:
    """Delete a group snapshot and start to delete its snapshots. The deletion of each snapshot may still fail."""
    snapshot = group_snapshot_for(context, snapshot_id)
    snapshots = list(Snapshot.objects.filter(group_snapshot=snapshot).order_by("volume_id"))
    if snapshot.status not in {
        SnapshotStatus.AVAILABLE,
        SnapshotStatus.ERROR,
        SnapshotStatus.ERROR_DELETING,
    }:
        raise InvalidInputError(f"GroupSnapshot {snapshot.id} is {snapshot.status}; it must be available or error.")
    for each in snapshots:
        DeleteSnapshot.begin(context, each.id, Deletion(force=True))
    GroupSnapshot.objects.filter(pk=snapshot.pk).delete()


@when_broken_off
@transaction.atomic
def reset_group_snapshot_status(context: RequestContext, snapshot_id: str, status: str) -> None:
    """Set a group snapshot's status for an operator."""
    if status not in SnapshotStatus.values:
        raise InvalidInputError(f"Group snapshot status: {status[:64]!r} is invalid.", field="status")
    seen = group_snapshot_for(context, snapshot_id)
    group_snapshot = GroupSnapshot.objects.select_for_update().filter(pk=seen.pk).first()
    if group_snapshot is None:
        raise NotFoundError(f"GroupSnapshot {snapshot_id[:64]} could not be found.")
    group_snapshot.status = status
    group_snapshot.save(update_fields=["status", "updated_at"])
    for snapshot in Snapshot.objects.filter(group_snapshot=group_snapshot).select_related("volume"):
        announce_snapshot(snapshot)


def _locked(context: RequestContext, group_id: str) -> Group:
    seen = group_for(context, group_id)
    group = Group.objects.select_for_update().filter(pk=seen.pk).first()
    if group is None:
        raise NotFoundError(f"Group {group_id[:64]} could not be found.")
    return group
