"""Attachments by the Block Storage API itself, for clients other than servers of Compute.

*Old form* means the volume actions without an attachment's id: ``os-reserve``, ``os-attach`` and so on.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.hosts.models import Host
from provisioning.volumes.errors import AttachmentNotFoundError, InvalidVolumeError
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.selectors.access import attachment_for, volume_for
from provisioning.volumes.services.checks import locked_volume
from provisioning.volumes.services.connections import attachments, daemons
from provisioning.volumes.state_machine import state
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
    """Reserve a volume as ``attachments.reserve``, and connect the host in ``connector``, if there is one."""
    server = None if not instance_id else read_id(instance_id)
    if instance_id and server is None:
        raise InvalidInputError(f"'{instance_id[:64]}' is not a 'uuid'", field="instance_uuid")
    made = attachments.reserve(context, volume_id, server, mode=mode, mountpoint=mountpoint)
    return connect(context, made.id, connector) if connector else made


@transaction.atomic
def reserve_in_old_form(context: RequestContext, volume_id: str) -> None:
    """Reserve a volume for a later ``os-attach``; it is ``attaching`` until then, as in Cinder."""
    made = attachments.reserve(context, volume_id, None)
    Attachment.objects.filter(pk=made.pk).update(connector=state.OLD_FORM)
    state.settle(locked_volume(context, volume_id))


@transaction.atomic
def connect(context: RequestContext, attachment_id: str | uuid.UUID, connector: Mapping[str, Any]) -> Attachment:
    """Export the volume to the host in a connector, which must be a host of this cloud.

    An attachment that ``os-attach`` has set to ``attached`` without a host stays ``attached``.
    """
    attachment = _of_no_server(context, attachment_id)
    named = connector.get("host")
    host = Host.objects.filter(name=str(named)[:255]).first() if isinstance(named, str) else None
    if host is None:
        msg = "The connector's host must be a host of this cloud: only these can open volumes."
        raise InvalidInputError(msg, field="connector")
    volume = locked_volume(context, attachment.volume_id)
    attachment = attachment_for(context, attachment.id)
    if attachment.status in (AttachStatus.ATTACHING, AttachStatus.ATTACHED) and attachment.host_id == host.id:
        return attachment
    attached = attachment.status == AttachStatus.ATTACHED and attachment.host_id is None
    if attachment.status != AttachStatus.RESERVED and not attached:
        raise InvalidVolumeError(f"Attachment {attachment.id} is {attachment.status}; it must be reserved.")
    Attachment.objects.filter(pk=attachment.pk).update(
        connector={str(name)[:255]: value for name, value in connector.items() if isinstance(value, str | bool | int)}
    )
    if attached:
        _open_to(host, attachment, volume)
    else:
        attachments.connect(attachment, host)
    return attachment_for(context, attachment.id)


def _open_to(host: Host | None, attachment: Attachment, volume: Volume) -> None:
    """Set the host that may open the locked volume of an attachment (None: no host); keep the attachment's status."""
    if host is not None:
        attachments.check_open(volume)
    Attachment.objects.filter(pk=attachment.pk).update(host=host, connection={})
    state.settle(volume)
    daemons.send_clients(volume)


def complete(context: RequestContext, attachment_id: str | uuid.UUID, mountpoint: str = "") -> Attachment:
    """Set an attachment to ``attached``."""
    return _completed(_of_no_server(context, attachment_id).id, mountpoint)


def _completed(attachment_id: uuid.UUID, mountpoint: str) -> Attachment:
    attachment = attachments.complete(attachment_id, mountpoint)
    if attachment is None:
        raise AttachmentNotFoundError(attachment_id)
    return attachment


def release(context: RequestContext, attachment_id: str | uuid.UUID) -> None:
    """Delete an attachment.  Raises ConflictError if it belongs to a server of Compute."""
    attachments.release(_of_no_server(context, attachment_id).id)


def detach(context: RequestContext, volume_id: str, attachment_id: str | None) -> None:
    """Detach a volume in the old form. Without ``attachment_id`` its only attachment is deleted, if there is one.

    Raises InvalidVolumeError, and the errors of ``release``.
    """
    volume = volume_for(context, volume_id)
    if attachment_id or Attachment.objects.filter(volume_id=volume.id).exists():
        release(context, only_attachment(context, volume_id, attachment_id).id)


def _of_no_server(context: RequestContext, attachment_id: str | uuid.UUID) -> Attachment:
    """Return an attachment that does not belong to a server of Compute, not even a shelved one.

    Raises ConflictError otherwise, because detaching a server's volume or exporting it to another host would result in
    two writers.
    """
    attachment = attachment_for(context, attachment_id)
    if uses.user().has(attachment):
        raise ConflictError(f"Detach volume from instance {attachment.instance_id} using the Compute API")
    return attachment


def unreserve(context: RequestContext, volume_id: str) -> None:
    """Delete the volume's reservations that belong to no server."""
    volume = volume_for(context, volume_id)
    waiting = Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.RESERVED, instance_id=None)
    for attachment in waiting:
        attachments.release(attachment.id)


@transaction.atomic
def initialize(context: RequestContext, volume_id: str, connector: Mapping[str, Any]) -> Attachment:
    """Export a volume to a host in the old form. Uses the volume's only attachment, or reserves a new one.

    Raises InvalidVolumeError if the volume has several attachments, and the errors of ``connect``.
    """
    volume = locked_volume(context, volume_id)
    if Attachment.objects.filter(volume_id=volume.id).exists():
        return connect(context, only_attachment(context, volume_id).id, connector)
    return connect(context, reserve(context, volume_id, None).id, connector)


@transaction.atomic
def terminate(context: RequestContext, volume_id: str) -> None:
    """Disconnect the host in the old form. An attached volume stays attached until it is detached."""
    volume = locked_volume(context, volume_id)
    attachment = _of_no_server(context, only_attachment(context, volume_id).id)
    if attachment.status in (AttachStatus.RESERVED, AttachStatus.ATTACHING, AttachStatus.ERROR_ATTACHING):
        attachments.release(attachment.id)
    else:
        _open_to(None, attachment, volume)


@transaction.atomic
def attach(
    context: RequestContext, volume_id: str, instance_id: str | None, mountpoint: str, mode: str = "rw"
) -> Attachment:
    """Set the volume's reserved attachment, or a new one, to ``attached`` in the old form."""
    volume = locked_volume(context, volume_id)
    server = read_id(instance_id) if instance_id else None
    mode = "ro" if volume.read_only else mode
    promised = (AttachStatus.RESERVED, AttachStatus.ATTACHING)
    waiting = Attachment.objects.filter(volume_id=volume.id, status__in=promised, instance_id=None).first()
    if waiting is None:
        waiting = attachments.reserve(context, volume_id, server, mode=mode, mountpoint=mountpoint)
    else:
        Attachment.objects.filter(pk=waiting.pk).update(instance_id=server, mode=mode)
    return _completed(waiting.id, mountpoint)


def only_attachment(context: RequestContext, volume_id: str, attachment_id: str | None = None) -> Attachment:
    """Return the specified attachment of the volume, or its only attachment.

    Raises InvalidVolumeError if there is no such attachment, or if there are several and none is specified.
    """
    volume: Volume = volume_for(context, volume_id)
    rows = list(Attachment.objects.filter(volume_id=volume.id))
    if attachment_id:
        rows = [each for each in rows if each.id == read_id(attachment_id)]
    if not rows:
        raise InvalidVolumeError(f"Volume {volume.id} is not attached.")
    if len(rows) > 1:
        raise InvalidVolumeError("Detach volume failed: More than one attachment, but no attachment_id provided.")
    return rows[0]
