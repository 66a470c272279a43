"""Attachments of volumes: reserve, connect, attach, detach and delete.

reserve → connect (the storage daemon exports the volume to the guest's host; ``VolumeUser.connected``) → complete.
begin_detaching → release, or roll_detaching if the guest does not release the disk.
"""

import contextlib
import uuid
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ConnectVolumeRequest, VolumeSpec
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError, UnavailableError
from provisioning.common.tasks import RecordTask
from provisioning.common.values.ids import NOBODY
from provisioning.hosts import commands
from provisioning.hosts.models import Host
from provisioning.volumes.errors import AttachmentNotFoundError, InvalidVolumeError
from provisioning.volumes.host_link import connections
from provisioning.volumes.host_link.host_commands import open_commands
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import holds, uses
from provisioning.volumes.records.holds import GUEST_HOST, HELD, is_held, unknown_connection
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_free, locked_volume, pool_of
from provisioning.volumes.services.connections import second_hosts
from provisioning.volumes.services.connections.daemons import end_at_holder, send_clients, set_daemon, settle_hold
from provisioning.volumes.state_machine import state
from provisioning.volumes.state_machine.deadlines import MINUTE, by_status
from provisioning.volumes.states import AttachStatus, VolumeStatus
from provisioning.volumes.tasks import SILENT, HostTask, reason_of

KIND = "connect_volume_request"
MOST_OF_VOLUME = 100
"""Maximum number of attachments of a volume, because its storage daemon serves each of them."""
SHAREABLE = (VolumeStatus.AVAILABLE, VolumeStatus.RESERVED, VolumeStatus.ATTACHING, VolumeStatus.IN_USE)
"""Statuses in which a multiattach volume accepts another attachment."""


@when_broken_off
@transaction.atomic
def reserve(
    context: RequestContext,
    volume_id: str | uuid.UUID,
    instance_id: uuid.UUID | None,
    *,
    mode: str = "rw",
    mountpoint: str = "",
    host: Host | None = None,
) -> Attachment:
    """Reserve a volume for a server, in the caller's transaction.

    ``instance_id`` None: for an external client; ``host``: the volume is also exported to this host. The mode of a
    read-only volume is ``ro``. Raises VolumeNotFoundError, InvalidInputError, InvalidVolumeError for a volume that is
    in use or has a task, ConflictError for a volume that was reserved concurrently, and the errors of ``connect``.
    """
    if mode not in ("rw", "ro"):
        raise InvalidInputError("The mode of an attachment must be rw or ro.", field="mode")
    volume = locked_volume(context, volume_id)
    there = Attachment.objects.filter(volume_id=volume.id)
    if instance_id is not None and there.filter(instance_id=instance_id).exists():
        raise InvalidVolumeError(f"Volume {volume.id} is already attached to server {instance_id}.")
    check_attachable(volume)
    if there.count() >= MOST_OF_VOLUME:
        raise InvalidVolumeError(f"Volume {volume.id} has {MOST_OF_VOLUME} attachments, which is the maximum.")
    pool_of(volume)
    try:
        with transaction.atomic():
            attachment = Attachment.objects.create(
                volume=volume,
                project_id=volume.project_id,
                instance_id=instance_id,
                exclusive=not volume.multiattach,
                mode="ro" if volume.read_only else mode,
                mountpoint=mountpoint,
                host=host,
                status=AttachStatus.RESERVED if host is None else AttachStatus.ATTACHING,
            )
    except IntegrityError as error:
        raise ConflictError(f"Volume {volume.id} was reserved by another request.") from error
    if host is None:
        state.settle(volume)
    else:
        state.settle(volume, "attach.start")
        send_clients(volume)
    return attachment


def check_attachable(volume: Volume) -> None:
    """Raise InvalidVolumeError for a volume that cannot be attached now."""
    if reason := holds.reason(volume):
        raise InvalidVolumeError(reason)
    if volume.status not in (SHAREABLE if volume.multiattach else (VolumeStatus.AVAILABLE,)):
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it must be available.")
    if not volume.multiattach:
        check_free(volume)


@transaction.atomic
def connect(attachment: Attachment, host: Host) -> None:
    """Export the volume to a guest on this host, in the caller's transaction.

    When the daemon's host has reported, ``VolumeUser.connected`` or ``refused`` is called. Raises UnavailableError if
    no host serves the volume's pool, or another host may have the volume open.
    """
    attachment, volume = _locked(attachment.id)
    check_open(volume)
    if not volume.multiattach and is_held(volume.id):
        raise UnavailableError(HELD)
    attachment.host, attachment.status = host, AttachStatus.ATTACHING
    attachment.connection = {}
    attachment.save(update_fields=["host", "status", "connection", "updated_at"])
    state.settle(volume, "attach.start")
    send_clients(volume)


def check_open(volume: Volume) -> None:
    """Raise UnavailableError while a host other than the volume's ``daemon_host`` may have the volume open."""
    if reason := holds.reason(volume):
        raise UnavailableError(reason)


@transaction.atomic
def disconnect(attachment_id: uuid.UUID) -> None:
    """End the export of a volume whose guest has left its host; the volume stays reserved for the guest's server.

    A deleted attachment is ignored.
    """
    try:
        attachment, volume = _locked(attachment_id)
    except AttachmentNotFoundError:
        return
    attachment.host, attachment.connection, attachment.status = None, {}, AttachStatus.RESERVED
    attachment.second_host, attachment.second_connection = None, {}
    attachment.refreshing = False  # the next host connects the volume as it is then
    attachment.save(
        update_fields=["host", "connection", "status", "second_host", "second_connection", "refreshing", "updated_at"]
    )
    state.settle(volume)
    send_clients(volume)
    follow_refreshed(volume)


@transaction.atomic
def complete(attachment_id: uuid.UUID, mountpoint: str = "") -> Attachment | None:
    """Set the attachment to ``attached``. Returns None and changes nothing if it was deleted in the meantime."""
    try:
        attachment, volume = _locked(attachment_id)
    except AttachmentNotFoundError:
        return None
    attachment.status, attachment.attached_at = AttachStatus.ATTACHED, timezone.now()
    attachment.mountpoint = mountpoint or attachment.mountpoint
    attachment.save(update_fields=["status", "attached_at", "mountpoint", "updated_at"])
    state.settle(volume, "attach.end")
    return attachment


@transaction.atomic
def begin_detaching(attachment_id: uuid.UUID) -> Attachment:
    """Set the attachment to ``detaching``.  Raises InvalidVolumeError if it is not attached or the
    volume has a task.
    """
    attachment, volume = _locked(attachment_id)
    if attachment.status not in (AttachStatus.ATTACHED, AttachStatus.ERROR_DETACHING, AttachStatus.DETACHING):
        raise InvalidVolumeError(f"Volume {volume.id} is {attachment.status}; it cannot be detached.")
    if GUEST_HOST in attachment.connector:
        raise InvalidVolumeError(holds.reason(volume) or HELD)
    if volume.status not in state.RESTING:
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it cannot be detached now.")
    _set(attachment, AttachStatus.DETACHING)
    state.settle(volume, "detach.start")
    return attachment


@transaction.atomic
def roll_detaching(attachment_id: uuid.UUID) -> Attachment | None:
    """Set a ``detaching`` attachment back to ``attached``. Returns None if it was deleted in the meantime."""
    try:
        attachment, volume = _locked(attachment_id)
    except AttachmentNotFoundError:
        return None
    if attachment.status == AttachStatus.DETACHING:
        _set(attachment, AttachStatus.ATTACHED)
        state.settle(volume)
    return attachment


@transaction.atomic
def release(attachment_id: uuid.UUID) -> None:
    """Delete an attachment and end its export. A deleted attachment is ignored."""
    try:
        attachment, volume = _locked(attachment_id)
    except AttachmentNotFoundError:
        return
    holder = holds.holder(attachment)
    was_open = attachment.host_id is not None or holder is not None
    Attachment.objects.filter(id=attachment.id).delete()
    end_at_holder(volume, attachment)
    settle_hold(volume)
    state.settle(volume, "detach.end")
    if was_open:
        with contextlib.suppress(UnavailableError):  # no host is available
            send_clients(volume, left=holder)
    if volume.status == VolumeStatus.EXTENDING and volume.wanted_gb is None:
        follow_refreshed(volume)


@transaction.atomic
def release_all_of(instance_id: uuid.UUID) -> int:
    """Detach all volumes of a deleted server; returns the count."""
    ids = list(Attachment.objects.filter(instance_id=instance_id).order_by("volume_id").values_list("id", flat=True))
    for attachment_id in ids:
        release(attachment_id)
    return len(ids)


@transaction.atomic
def refreshed(attachment: Attachment | uuid.UUID) -> None:
    """Record that the guest's host has applied the size, limits or connection that ``VolumeUser.changed`` sent."""
    key = attachment.id if isinstance(attachment, Attachment) else attachment
    try:
        found, volume = _locked(key)
    except AttachmentNotFoundError:
        return
    Attachment.objects.filter(id=found.id).update(refreshing=False)
    follow_refreshed(volume)


def follow_refreshed(volume: Volume) -> None:
    """End the extend task of a volume, and the export of the previous size, when all guests have the new size."""
    waiting = Attachment.objects.filter(volume_id=volume.id, refreshing=True, instance_id__isnull=False)
    if volume.status == VolumeStatus.EXTENDING and volume.wanted_gb is None and not waiting.exists():
        Attachment.objects.filter(volume_id=volume.id, refreshing=True).update(refreshing=False)
        send_clients(volume)
        state.end_task(volume, "resize.end")


def _set(attachment: Attachment, status: AttachStatus) -> None:
    attachment.status = status
    attachment.save(update_fields=["status", "updated_at"])


def _locked(attachment_id: uuid.UUID) -> tuple[Attachment, Volume]:
    """Return an attachment and its volume, locked, the volume first."""
    volume_id = Attachment.objects.filter(id=attachment_id).values_list("volume_id", flat=True).first()
    volume = state.lock([volume_id]).get(volume_id) if volume_id else None
    attachment = Attachment.objects.filter(id=attachment_id).first()
    if volume is None or attachment is None:
        raise AttachmentNotFoundError(attachment_id)
    attachment.volume = volume
    return attachment, volume


# ----- reports of the daemon's host -----------------------------------------------------------------------------------


class Connect(HostTask[Volume, ConnectVolumeRequest]):
    """Set the list of clients that a volume's daemon admits. ``Attach`` gives up the attachments that wait for it."""

    model = Volume
    body = ConnectVolumeRequest

    def subject(self, volume: Volume, body: ConnectVolumeRequest) -> Volume | None:
        return volume

    def overdue(self, volume: Volume) -> None:
        """Do nothing: the volume has no status of its own for this task."""

    def end(self, volume: Volume, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> None:
        if body.clients and host_id != volume.daemon_host_id:
            return  # the daemon now runs on another host: the report is stale
        if uses.MOVES.only().exported(volume, event, body):
            return
        named = [uuid.UUID(client.attachment_id) for client in body.clients]
        waiting = Attachment.objects.filter(id__in=named, volume_id=volume.id, connection={})
        waiting = waiting.filter(status__in=(AttachStatus.ATTACHING, AttachStatus.ATTACHED))
        second_hosts.answered(volume, event, body, host_id)
        if event.kind == "failed":
            for attachment in waiting.select_related("volume", "host"):
                refuse(attachment, volume, reason_of(event))
            return
        if not body.clients:
            if host_id == volume.daemon_host_id:
                _closed(volume)
            return
        _place_open(volume, event, body, host_id)
        for attachment in waiting.select_related("volume", "host"):
            if not _place(attachment, event, body, host_id):
                refuse(attachment, volume, connections.REFUSED)
            elif volume.migration_of is not None:
                uses.MOVES.only().connected(attachment, "")
            else:
                uses.user().connected(attachment)


class Attach(RecordTask[Attachment]):
    """Export a volume to the host of a guest, which then attaches it."""

    model = Attachment
    clock = "updated_at"
    timeouts = by_status({AttachStatus.ATTACHING: 3 * MINUTE})
    when_overdue = (
        "without a connection, the attachment is in `error_attaching`; otherwise the server's host is commanded again"
    )

    def lock(self, key: uuid.UUID) -> Attachment | None:
        with contextlib.suppress(AttachmentNotFoundError):
            return _locked(key)[0]
        return None

    def waits_until(self, attachment: Attachment) -> datetime | None:
        pending = open_commands(attachment.volume_id).filter(kind=KIND)
        return None if attachment.connection else commands.awaited_until(pending)

    def overdue(self, attachment: Attachment) -> None:
        """Fail an attachment without connection. Call ``VolumeUser.connected`` again for a server's attachment that is
        still not complete, because the first call may have had no effect.
        """
        if not attachment.connection:
            refuse(attachment, attachment.volume, SILENT)
        elif attachment.instance_id is not None:
            Attachment.objects.filter(id=attachment.id).update(updated_at=timezone.now())
            uses.user().connected(attachment, again=True)


def _place_open(volume: Volume, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> None:
    """Store the connections of attachments whose connection was unknown (``holds.unknown_connection``)."""
    named = [client.attachment_id for client in body.clients]
    known = Attachment.objects.filter(id__in=named, volume_id=volume.id)
    for attachment in known.filter(connection=unknown_connection(volume)):
        _place(attachment, event, body, host_id)


def _place(attachment: Attachment, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> bool:
    """Store the connection of an attachment; return False if the host reported no valid connection."""
    connection = reported_connection(attachment, event, body.volume, host_id)
    if connection is None:
        return False
    attachment.connection = connections.as_column(connection)
    attachment.save(update_fields=["connection", "updated_at"])
    return True


def refuse(attachment: Attachment, volume: Volume, reason: str) -> None:
    """Set an attachment to ``error_attaching`` because its volume could not be connected, and notify the volume's user.

    If the attachment belongs to a migration, the migration is aborted instead.
    """
    if volume.migration_of is not None:
        uses.MOVES.only().connected(attachment, reason)
        return
    messages.of_volume(volume, messages.ATTACH, reason)
    _set(attachment, AttachStatus.ERROR_ATTACHING)
    state.reread(volume)
    state.settle(volume)
    uses.user().refused(attachment, reason)


def _closed(volume: Volume) -> None:
    """Unset ``Volume.daemon_host`` after its daemon has ended, and connect waiting attachments by a new daemon."""
    commands = open_commands(volume.id).filter(kind=KIND)
    if commands.filter(host_id=volume.daemon_host_id or NOBODY).exists():
        return
    set_daemon(volume, None)
    if Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.ATTACHING, connection={}).exists():
        send_clients(volume)


def reported_connection(
    attachment: Attachment, event: AgentEvent, volume: VolumeSpec, daemon: uuid.UUID
) -> VolumeConnection | None:
    """Return the connection of an attachment in the report of the host ``daemon``; None if the report has no valid
    connection.
    """
    return connections.connection_for(
        event,
        volume,
        client_id=attachment.id,
        client_host=attachment.host_id,
        daemon=daemon,
        move=attachment.move,
    )
