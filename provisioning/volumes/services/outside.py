"""Volumes for whoever asks by the Block Storage API itself, instead of a server of Compute."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.ids import read_id
from provisioning.hosts.models import Host
from provisioning.volumes import uses
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.selectors.access import attachment_for, volume_for
from provisioning.volumes.services import attachments
from provisioning.volumes.states import AttachStatus


@transaction.atomic
def reserve(
    context: RequestContext,
    volume_id: str,
    instance_id: str | None,
    *,
    mode: str = "rw",
    mountpoint: str = "",
    connector: Mapping[str, Any] | None = None,
) -> Attachment:
    """Reserve a volume, and with a connector let its host in; else as ``attachments.reserve``."""
    server = None if not instance_id else read_id(instance_id)
    if instance_id and server is None:
        raise InvalidInputError(f"'{instance_id[:64]}' is not a 'uuid'", field="instance_uuid")
    made = attachments.reserve(context, volume_id, server, mode=mode, mountpoint=mountpoint)
    return connect(context, made.id, connector) if connector else made


@transaction.atomic
def connect(context: RequestContext, attachment_id: str | uuid.UUID, connector: Mapping[str, Any]) -> Attachment:
    """Let the host that a connector names open the volume; it must be one of the cloud's."""
    found = _of_no_server(context, attachment_id)
    named = connector.get("host")
    host = Host.objects.filter(name=str(named)[:255]).first() if isinstance(named, str) else None
    if host is None:
        msg = "The connector's host must be a host of this cloud: volumes are opened by nobody else."
        raise InvalidInputError(msg, field="connector")
    if found.status != AttachStatus.RESERVED:
        raise InvalidVolumeError(f"Attachment {found.id} is {found.status}; it must be reserved.")
    Attachment.objects.filter(pk=found.pk).update(
        connector={str(name)[:255]: value for name, value in connector.items() if isinstance(value, str | bool | int)}
    )
    attachments.connect(found, host)
    return attachment_for(context, found.id)


def complete(context: RequestContext, attachment_id: str | uuid.UUID, mountpoint: str = "") -> Attachment:
    """Say that the volume is attached."""
    found = _of_no_server(context, attachment_id)
    return attachments.complete(found.id, mountpoint)


def release(context: RequestContext, attachment_id: str | uuid.UUID) -> None:
    """Give a volume back; ConflictError while a server of Compute has it."""
    attachments.release(_of_no_server(context, attachment_id).id)


def _of_no_server(context: RequestContext, attachment_id: str | uuid.UUID) -> Attachment:
    """Return an attachment that no server of Compute has, also none that is shelved; ConflictError for others.

    Whoever took a volume from under its server, or gave its data to another host, would have two writers.
    """
    found = attachment_for(context, attachment_id)
    if uses.user().has(found):
        raise ConflictError(f"Detach volume from instance {found.instance_id} using the Compute API")
    return found


def unreserve(context: RequestContext, volume_id: str) -> None:
    """Reserve a volume no longer."""
    volume = volume_for(context, volume_id)
    waiting = Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.RESERVED, instance_id=None)
    for attachment in waiting:
        attachments.release(attachment.id)


@transaction.atomic
def attach(
    context: RequestContext, volume_id: str, instance_id: str | None, mountpoint: str, mode: str = "rw"
) -> Attachment:
    """Say that a volume is attached, in the old form: what was reserved before, or at once."""
    volume = volume_for(context, volume_id)
    server = read_id(instance_id) if instance_id else None
    waiting = Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.RESERVED, instance_id=None).first()
    if waiting is None:
        waiting = attachments.reserve(context, volume_id, server, mode=mode, mountpoint=mountpoint)
    else:
        Attachment.objects.filter(pk=waiting.pk).update(instance_id=server, mode=mode)
    return attachments.complete(waiting.id, mountpoint)


def only_attachment(context: RequestContext, volume_id: str, attachment_id: str | None = None) -> Attachment:
    """Return the attachment of a volume that is meant; InvalidVolumeError when there is none, or several."""
    volume: Volume = volume_for(context, volume_id)
    found = list(Attachment.objects.filter(volume_id=volume.id))
    if attachment_id:
        found = [each for each in found if each.id == read_id(attachment_id)]
    if not found:
        raise InvalidVolumeError(f"Volume {volume.id} is not attached.")
    if len(found) > 1:
        raise InvalidVolumeError("Detach volume failed: More than one attachment, but no attachment_id provided.")
    return found[0]
