"""Changes of a volume's record: name, description, metadata, and resets by operators."""

import uuid
from collections.abc import Mapping
from typing import Any, Literal

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.hosts.models import Host
from provisioning.volumes.errors import AttachmentNotFoundError, InvalidVolumeError
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.selectors import attachment_for
from provisioning.volumes.services.checks import MIGRATING, check_metadata, check_texts, locked_volume
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.services.updates import extend, migrate
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus, VolumeStatus

Bag = Literal["metadata", "admin_metadata", "image_metadata"]
"""The columns that map text to text."""
Id = str | uuid.UUID
RESET = "An operator has reset the status of the volume."


@when_broken_off
@transaction.atomic
def update_volume(
    context: RequestContext,
    volume_id: Id,
    *,
    name: str | None = None,
    description: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Volume:
    """Update a volume; None leaves a value unchanged, ``metadata`` replaces all metadata."""
    check_texts(name, description)
    check_metadata(metadata or {})
    volume = locked_volume(context, volume_id)
    values = {"name": name, "description": description, "metadata": None if metadata is None else dict(metadata)}
    return state.update(volume, {key: value for key, value in values.items() if value is not None}, "update.end")


@when_broken_off
@transaction.atomic
def edit_volume(
    context: RequestContext,
    volume_id: Id,
    *,
    name: str,
    description: str,
    bootable: bool,
    read_only: bool | None = None,
) -> Volume:
    """Update all fields of the volume form; ``read_only`` None leaves it unchanged.

    Raises InvalidVolumeError if ``read_only`` changes while the volume is attached.
    """
    volume = update_volume(context, volume_id, name=name, description=description)
    if volume.bootable != bootable:
        volume = set_bootable(context, volume_id, bootable=bootable)
    if read_only is not None and volume.read_only != read_only:
        volume = set_read_only(context, volume_id, read_only=read_only)
    return volume


@when_broken_off
@transaction.atomic
def set_items(
    context: RequestContext, volume_id: Id, items: Mapping[str, str], *, bag: Bag = "metadata", replace: bool = False
) -> Volume:
    """Add metadata to a volume, or (``replace``) replace all of it.

    Image metadata can only be changed while the volume has no task.  Raises InvalidInputError, InvalidVolumeError.
    """
    volume = locked_volume(context, volume_id)
    _check_bag(volume, bag)
    resulting = dict(items) if replace else {**getattr(volume, bag), **items}
    check_metadata(resulting, bag)
    return state.update(volume, {bag: resulting}, "update.end")


@when_broken_off
@transaction.atomic
def delete_item(context: RequestContext, volume_id: Id, key: str, *, bag: Bag = "metadata") -> None:
    """Remove one item.  Raises InvalidInputError with the field ``key`` if it does not exist."""
    volume = locked_volume(context, volume_id)
    _check_bag(volume, bag)
    there = getattr(volume, bag)
    if key not in there:
        raise InvalidInputError(f"Volume {volume.id} has no {bag} with key {key[:255]}.", field="key")
    state.update(volume, {bag: {name: value for name, value in there.items() if name != key}}, "update.end")


def _check_bag(volume: Volume, bag: Bag) -> None:
    if bag == "image_metadata" and volume.status not in (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE):
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it must be available or in-use.")


@transaction.atomic
def set_bootable(context: RequestContext, volume_id: Id, *, bootable: bool) -> Volume:
    """Set whether servers may boot from a volume."""
    return state.update(locked_volume(context, volume_id), {"bootable": bootable}, "update.end")


@transaction.atomic
def set_read_only(context: RequestContext, volume_id: Id, *, read_only: bool) -> Volume:
    """Set whether a volume is attached read-only. It must be available.  Raises InvalidVolumeError."""
    volume = locked_volume(context, volume_id)
    if volume.status != VolumeStatus.AVAILABLE:
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it must be available.")
    metadata = {**volume.admin_metadata, "readonly": str(read_only)}
    return state.update(volume, {"read_only": read_only, "admin_metadata": metadata}, "update.end")


@when_broken_off
@transaction.atomic
def reset_status(
    context: RequestContext,
    volume_id: Id,
    *,
    status: str | None = None,
    attach_status: str | None = None,
    migration_status: str | None = None,
) -> Volume:
    """Reset the status of a volume for an operator. Results of earlier commands are then ignored.

    ``attach_status`` ``detached`` deletes its attachments. Migrations and extends end, and their claims are released.
    Exception: if a guest is already switching to the new data of a migration, the migration continues, and the volume
    gets the data that the guest uses afterwards. Raises ForbiddenError, InvalidInputError.
    """
    if not context.is_admin:
        raise ForbiddenError("Only operators may reset the status of a volume.")
    if status is not None and status not in VolumeStatus.values:
        raise InvalidInputError(f"A volume has no status {status[:64]!r}.", field="status")
    if attach_status not in (None, "attached", "detached"):
        raise InvalidInputError("The attach status is attached or detached.", field="attach_status")
    volume = locked_volume(context, volume_id)
    if attach_status == "detached":
        for attachment in Attachment.objects.filter(volume_id=volume.id):
            _release(attachment)
        state.reread(volume)
    changes: dict[str, Any] = {"deadline": None}
    moving = volume.migration_status == MIGRATING and migrate.is_swapping(volume)
    if volume.migration_status == MIGRATING and (status or migration_status not in (None, MIGRATING)) and not moving:
        migrate.abort(volume, RESET)
        state.reread(volume)
        changes["migration_status"] = migrate.FAILED
    if status is not None and volume.wanted_gb is not None:
        extend.release_growth(volume)
        changes["wanted_gb"] = None
    if status is not None:
        changes |= {"generation": volume.generation + 1, "progress_bytes": 0, "progress_total": 0}
    if migration_status is not None and not moving:
        changes["migration_status"] = "" if migration_status == "none" else migration_status[:24]
    return state.move(volume, VolumeStatus(status or volume.status), changes=changes, reset=True)


@when_broken_off
@transaction.atomic
def force_detach(context: RequestContext, volume_id: Id, attachment_id: Id | None = None) -> None:
    """Delete an attachment for an operator, regardless of its guest.  Raises ForbiddenError and NotFoundError.

    ``attachment_id`` None: the volume's only attachment. A volume in ``error`` gets the status that its attachments
    imply, as in Cinder.
    """
    if not context.is_admin:
        raise ForbiddenError("Only operators may detach by force.")
    volume = locked_volume(context, volume_id)
    if attachment_id is not None:
        named = attachment_for(context, attachment_id)
        if named.volume_id != volume.id:
            raise AttachmentNotFoundError(attachment_id)
    else:
        there = list(Attachment.objects.filter(volume_id=volume.id))
        if len(there) != 1:
            raise InvalidVolumeError(f"Volume {volume.id} has {len(there)} attachments: specify one.")
        named = there[0]
    _release(named)
    state.reread(volume)
    if volume.status == VolumeStatus.ERROR:
        state.end_task(volume)


def _release(attachment: Attachment) -> None:
    """Delete an attachment for an operator, and notify the user of the volume."""
    attachments.release(attachment.id)
    uses.user().released(attachment)


@when_broken_off
@transaction.atomic
def detach_from_dead_host(context: RequestContext, host_id: uuid.UUID) -> int:
    """Delete all attachments of a host that is forced down; returns how many.

    Raises ForbiddenError, NotFoundError, and ConflictError for a host that may still write.
    """
    if not context.is_admin:
        raise ForbiddenError("Only operators may delete attachments.")
    host = Host.objects.filter(id=host_id).first()
    if host is None:
        raise NotFoundError(f"There is no host {host_id}.")
    if not host.forced_down:
        raise ConflictError("Force the host down first: a guest that still runs there could continue to write.")
    return detach_from_host(host_id)


def detach_from_host(host_id: uuid.UUID, *, only_moving: bool = False) -> int:
    """Delete the attachments of a host that is forced down; returns how many.

    ``only_moving``: keep attached volumes, because their servers may be rebuilt on another host, and keep attachments
    of servers that are being built and attachments that a guest is switching to. In any case, an attachment to the new
    data of a migration is kept while a guest is switching to it, because the guest may already write to this data.
    """
    rows = Attachment.objects.filter(host_id=host_id).select_related("volume")
    if only_moving:
        rows = rows.exclude(status=AttachStatus.ATTACHED)
    ended = [each for each in rows.order_by("volume_id") if not _stays(each, only_moving=only_moving)]
    for attachment in ended:
        _release(attachment)
    return len(ended)


def _stays(attachment: Attachment, *, only_moving: bool) -> bool:
    """Return whether ``detach_from_host`` keeps an attachment."""
    if only_moving and uses.user().is_building(attachment):
        return True
    return bool(only_moving or attachment.volume.migration_of) and uses.user().is_swapping(attachment)
