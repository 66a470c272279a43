"""Who has a volume: reserved, connected, attached, detached, given back.

reserve → connect (the storage daemon lets the guest's host in; ``VolumeUser.connected``) → complete.
begin_detaching → release, or roll_detaching when the guest does not let go.

The daemon of a volume is told the whole list of its clients each time.  Where it runs: on the pool's host; for a
shared pool on the guest's host, on each one's when an ``rbd`` volume has several.
"""

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import ConnectVolumeRequest, VolumeClient
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, UnavailableError
from provisioning.common.ids import NOBODY, read_id
from provisioning.common.retry import when_broken_off
from provisioning.hosts.commands import withdraw
from provisioning.hosts.models import Host
from provisioning.volumes import connections, state, uses
from provisioning.volumes.ends import reason_of, takes_end
from provisioning.volumes.errors import AttachmentNotFoundError, InvalidVolumeError
from provisioning.volumes.host_commands import NO_HOST, hosts_of, open_commands, send, spec_of
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.services import messages
from provisioning.volumes.services.checks import check_free, locked_volume, pool_of
from provisioning.volumes.states import AttachStatus, VolumeStatus

Exported = Callable[[Volume, AgentEvent, ConnectVolumeRequest], bool]
SwapReady = Callable[[Attachment, str], None]
_exported: list[Exported] = []
_swap_ready: list[SwapReady] = []
KIND = "connect_volume_request"
HELD_BY = "held_by"
"""In the connector of an attachment: the id of the host that has the volume open for somebody whom no record knows."""
HELD = "A host has the volume open for an attachment that was lost with records. Delete that attachment first."
MOST_OF_VOLUME = 100
"""Attachments of one volume that several servers may have: its storage daemon serves each of them."""
SHAREABLE = (VolumeStatus.AVAILABLE, VolumeStatus.RESERVED, VolumeStatus.ATTACHING, VolumeStatus.IN_USE)
"""Statuses in which a multiattach volume takes one more."""


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
    """Promise a volume to a server (None: to somebody outside), in the caller's transaction; with ``host`` it is
    connected at once, as ``connect`` does it.

    A read-only volume is given read-only.  Raises VolumeNotFoundError, InvalidInputError, InvalidVolumeError for a
    volume that is in use or busy, ConflictError for one that was taken at this moment; and as ``connect``.
    """
    if mode not in ("rw", "ro"):
        raise InvalidInputError("The mode of an attachment is rw or ro.", field="mode")
    volume = locked_volume(context, volume_id)
    there = Attachment.objects.filter(volume_id=volume.id)
    if instance_id is not None and there.filter(instance_id=instance_id).exists():
        raise InvalidVolumeError(f"Volume {volume.id} is attached to server {instance_id} already.")
    check_attachable(volume)
    if there.count() >= MOST_OF_VOLUME:
        raise InvalidVolumeError(f"Volume {volume.id} has {MOST_OF_VOLUME} attachments, the most there may be.")
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
        raise ConflictError(f"Volume {volume.id} was taken at this moment.") from error
    if host is None:
        state.settle(volume)
    else:
        state.settle(volume, "attach.start")
        tell_clients(volume)
    return attachment


def check_attachable(volume: Volume) -> None:
    """Raise InvalidVolumeError for a volume that nobody can be given now."""
    if volume.status not in (SHAREABLE if volume.multiattach else (VolumeStatus.AVAILABLE,)):
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it must be available.")
    if not volume.multiattach:
        check_free(volume)


@transaction.atomic
def connect(attachment: Attachment, host: Host) -> None:
    """Let the guest on this host open the volume: ``VolumeUser.connected`` or ``refused`` is called later.

    In the caller's transaction.  Raises UnavailableError when no host serves the volume's pool.
    """
    attachment, volume = _locked(attachment.id)
    if not volume.multiattach and is_held(volume.id):
        raise UnavailableError(HELD)
    attachment.host, attachment.status = host, AttachStatus.ATTACHING
    attachment.connection = {}
    attachment.save(update_fields=["host", "status", "connection", "updated_at"])
    state.settle(volume, "attach.start")
    tell_clients(volume)


@transaction.atomic
def disconnect(attachment_id: uuid.UUID) -> None:
    """The guest has left its host: the daemon is told, and the volume stays promised to its server.

    One that is gone changes nothing.
    """
    try:
        attachment, volume = _locked(attachment_id)
    except AttachmentNotFoundError:
        return
    attachment.host, attachment.connection, attachment.status = None, {}, AttachStatus.RESERVED
    attachment.save(update_fields=["host", "connection", "status", "updated_at"])
    state.settle(volume)
    tell_clients(volume)
    follow_refreshed(volume)


@transaction.atomic
def complete(attachment_id: uuid.UUID, mountpoint: str = "") -> Attachment | None:
    """The guest has its disk.  None, and nothing changes, for an attachment that was released meanwhile."""
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
    """The guest is asked to let go.  Raises InvalidVolumeError when it has no such disk, or the volume is busy."""
    attachment, volume = _locked(attachment_id)
    if attachment.status not in (AttachStatus.ATTACHED, AttachStatus.ERROR_DETACHING, AttachStatus.DETACHING):
        raise InvalidVolumeError(f"Volume {volume.id} is {attachment.status}; it cannot be detached.")
    if volume.status not in state.RESTING:
        raise InvalidVolumeError(f"Volume {volume.id} is {volume.status}; it cannot be detached now.")
    _set(attachment, AttachStatus.DETACHING)
    state.settle(volume, "detach.start")
    return attachment


@transaction.atomic
def roll_detaching(attachment_id: uuid.UUID) -> Attachment | None:
    """The guest keeps its disk.  None, and nothing changes, for an attachment that was released meanwhile."""
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
    """Nobody has this attachment any more: the daemon is told, and the volume may be given to others.

    One that is gone changes nothing.
    """
    try:
        attachment, volume = _locked(attachment_id)
    except AttachmentNotFoundError:
        return
    was_open = attachment.host_id is not None
    Attachment.objects.filter(id=attachment.id).delete()
    state.settle(volume, "detach.end")
    if was_open:
        with contextlib.suppress(UnavailableError):  # nobody is there who could be told
            tell_clients(volume, left=read_id(str(attachment.connector.get(HELD_BY, ""))))
    if volume.status == VolumeStatus.EXTENDING and volume.wanted_gb is None:
        follow_refreshed(volume)


@transaction.atomic
def release_all_of(instance_id: uuid.UUID) -> int:
    """Give back every volume of a server that is over; returns how many."""
    ids = list(Attachment.objects.filter(instance_id=instance_id).order_by("volume_id").values_list("id", flat=True))
    for attachment_id in ids:
        release(attachment_id)
    return len(ids)


@transaction.atomic
def refreshed(attachment: Attachment | uuid.UUID) -> None:
    """The guest's host has brought the disk to what ``VolumeUser.changed`` was called for."""
    key = attachment.id if isinstance(attachment, Attachment) else attachment
    try:
        found, volume = _locked(key)
    except AttachmentNotFoundError:
        return
    Attachment.objects.filter(id=found.id).update(refreshing=False)
    follow_refreshed(volume)


def follow_refreshed(volume: Volume) -> None:
    """End the older export and the task of a grown volume when every guest has the new size."""
    waiting = Attachment.objects.filter(volume_id=volume.id, refreshing=True, instance_id__isnull=False)
    if volume.status == VolumeStatus.EXTENDING and volume.wanted_gb is None and not waiting.exists():
        Attachment.objects.filter(volume_id=volume.id, refreshing=True).update(refreshing=False)
        tell_clients(volume)
        state.end_task(volume, "resize.end")


def is_held(volume_id: uuid.UUID) -> bool:
    """Whether a volume is kept for somebody who has it open and whom no record knows."""
    return Attachment.objects.filter(volume_id=volume_id, connector__has_key=HELD_BY).exists()


def unknown_connection(volume: Volume) -> dict[str, Any]:
    """Return the connection of an attachment whose guest has the volume open by a place that no record knows."""
    return {"export": str(volume.data_id or volume.id)}


def needs_proof(volume: Volume) -> bool:
    """Whether a host that says it has a volume open must not be given the volume's key on the ground of its word."""
    return bool(volume.encryption_key) and volume.pool is not None and volume.pool.shared


def _is_kept_unproven(volume: Volume) -> bool:
    return needs_proof(volume) and is_held(volume.id)


def when_exported(function: Exported) -> None:
    """Ask this one first when a daemon has been told of its clients: whether they are no attachments."""
    _exported[:] = [function]


def when_swap_is_ready(function: SwapReady) -> None:
    """Call this instead of the user when the volume that a guest is to go over to is connected, or (text) refused."""
    _swap_ready[:] = [function]


def _set(attachment: Attachment, status: AttachStatus) -> None:
    attachment.status = status
    attachment.save(update_fields=["status", "updated_at"])


def _locked(attachment_id: uuid.UUID) -> tuple[Attachment, Volume]:
    """Return an attachment and its volume, locked: the volume first."""
    volume_id = Attachment.objects.filter(id=attachment_id).values_list("volume_id", flat=True).first()
    volume = state.lock([volume_id]).get(volume_id) if volume_id else None
    found = Attachment.objects.filter(id=attachment_id).first()
    if volume is None or found is None:
        raise AttachmentNotFoundError(attachment_id)
    found.volume = volume
    return found, volume


# ----- the daemon's clients -------------------------------------------------------------------------------------------


def tell_clients(volume: Volume, *, left: uuid.UUID | None = None) -> None:
    """Tell each host that runs or ran a daemon of a locked volume who its clients are, in the caller's transaction.

    ``left``: a host that is told as well, if it is to serve nobody.  Raises UnavailableError when no host serves the
    pool.
    """
    if volume.pool is None or _is_kept_unproven(volume):
        return
    using = list(Attachment.objects.filter(volume_id=volume.id, host__isnull=False).order_by("created_at", "id"))
    by_host = _by_daemon(volume, using)
    before = volume.daemon_host_id
    if left is not None and left not in by_host and left != before:
        _send(volume, left, [])
    if before is not None and before not in by_host:
        dead = _is_dead(before)
        if dead:
            _forget_daemon(volume)
        else:
            _send(volume, before, [])
        if not dead and volume.pool.shared:
            return  # nobody else opens the data before this daemon has ended
    if using and not by_host:
        raise UnavailableError(NO_HOST)
    if using and volume.daemon_host_id not in by_host:
        first = next(iter(by_host))
        Volume.objects.filter(id=volume.id).update(daemon_host_id=first)
        volume.daemon_host_id = first
    for host_id, clients in by_host.items():
        _send(volume, host_id, clients)


def serve_again(host_id: uuid.UUID, pool_id: uuid.UUID, data_ids: Collection[uuid.UUID]) -> None:
    """Tell a host whose machine has started again the clients of volumes that it says it served before.

    A key goes only to the host that the records have the volume's daemon on; one that serves nobody is told so, without
    a key.  What somebody does with a volume at the moment goes first.
    """
    mine = Q(id__in=data_ids, data_id=None) | Q(data_id__in=data_ids)
    ids = list(Volume.objects.filter(mine, pool_id=pool_id).order_by("id").values_list("id", flat=True))
    for volume in state.lock(ids).values():
        if not open_commands(volume.id).exists() and not _is_kept_unproven(volume):
            using = Attachment.objects.filter(volume_id=volume.id, host__isnull=False).order_by("created_at", "id")
            _send(volume, host_id, _by_daemon(volume, using).get(host_id, []))


def _forget_daemon(volume: Volume) -> None:
    """An operator says that the daemon's host is dead: it is not waited for, and ends the daemon when it is back."""
    host_id = volume.daemon_host_id or NOBODY
    withdraw(open_commands(volume.id).filter(host_id=host_id))
    _send(volume, host_id, [])
    Volume.objects.filter(id=volume.id).update(daemon_host_id=None)
    volume.daemon_host_id = None


def _by_daemon(volume: Volume, using: Iterable[Attachment]) -> dict[uuid.UUID, list[Attachment]]:
    """Return host → the attachments that its daemon serves."""
    using = list(using)
    if not using or volume.pool is None:
        return {}
    if not volume.pool.shared:
        served = volume.daemon_host_id or next((host.id for host in hosts_of(volume.pool)), None)
        return {served: using} if served else {}
    hosts, daemon = _hosts_in_pool(volume, using), volume.daemon_host_id
    if daemon is not None and (daemon in hosts or (any(each.connection for each in using) and not _is_dead(daemon))):
        return {daemon: using}  # guests elsewhere may have it open through this daemon: it stays where it is
    hosts = hosts or [host.id for host in hosts_of(volume.pool)]
    return {hosts[0]: using} if hosts else {}


def _hosts_in_pool(volume: Volume, using: Iterable[Attachment]) -> list[uuid.UUID]:
    """Return the guests' hosts that are admitted to the volume's pool: only there a daemon may open its data."""
    admitted = set(PoolHost.objects.filter(pool_id=volume.pool_id).values_list("host_id", flat=True))
    return [each.host_id for each in using if each.host_id in admitted]


def _is_dead(host_id: uuid.UUID) -> bool:
    return Host.objects.filter(id=host_id, forced_down=True).exists()


def _send(volume: Volume, host_id: uuid.UUID, clients: Iterable[Attachment]) -> None:
    told = [
        VolumeClient(
            attachment_id=str(each.id),
            host_id=str(each.host_id),
            local=each.host_id == host_id,
            read_only=each.mode == "ro",
        )
        for each in clients
    ]
    Volume.objects.filter(id=volume.id).update(version=F("version") + 1)
    volume.version += 1  # no two lists of clients have one number: a host refuses an older one
    body = ConnectVolumeRequest(volume=spec_of(volume, with_key=bool(told)), clients=told)
    send(volume, body, host_id=host_id, beside=True)


@takes_end(ConnectVolumeRequest)
def _connected(volume: Volume, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> None:
    if body.clients and host_id != volume.daemon_host_id:
        return  # another host has the daemon by now: this one's word counts for nothing
    if any(function(volume, event, body) for function in _exported):
        return
    named = [uuid.UUID(client.attachment_id) for client in body.clients]
    waiting = Attachment.objects.filter(id__in=named, volume_id=volume.id, connection={})
    waiting = waiting.filter(status__in=(AttachStatus.ATTACHING, AttachStatus.ATTACHED))
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
            _swap_ready[0](attachment, "")
        else:
            uses.user().connected(attachment)


def _place_open(volume: Volume, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> None:
    """Write down the places of attachments whose guests have the volume open by one that no record knows."""
    named = [client.attachment_id for client in body.clients]
    known = Attachment.objects.filter(id__in=named, volume_id=volume.id)
    for attachment in known.filter(connection=unknown_connection(volume)):
        _place(attachment, event, body, host_id)


def _place(attachment: Attachment, event: AgentEvent, body: ConnectVolumeRequest, host_id: uuid.UUID) -> bool:
    """Write down by which place a guest opens its volume; False when the host has named none that it may open."""
    found = connections.connection_for(
        event, body.volume, client_id=attachment.id, client_host=attachment.host_id, daemon=host_id
    )
    if found is None:
        return False
    attachment.connection = connections.as_column(found)
    attachment.save(update_fields=["connection", "updated_at"])
    return True


def refuse(attachment: Attachment, volume: Volume, reason: str) -> None:
    """A volume could not be connected: its user gives the attachment back."""
    if volume.migration_of is not None:
        _swap_ready[0](attachment, reason)
        return
    messages.of_volume(volume, messages.ATTACH, reason)
    _set(attachment, AttachStatus.ERROR_ATTACHING)
    state.reread(volume)
    state.settle(volume)
    uses.user().refused(attachment, reason)


def _closed(volume: Volume) -> None:
    """A daemon has ended: whoever waits for the data is let in elsewhere."""
    told = open_commands(volume.id).filter(kind=KIND)
    if told.filter(host_id=volume.daemon_host_id or NOBODY).exists():
        return
    Volume.objects.filter(id=volume.id).update(daemon_host_id=None)
    volume.daemon_host_id = None
    if Attachment.objects.filter(volume_id=volume.id, status=AttachStatus.ATTACHING, connection={}).exists():
        tell_clients(volume)
