"""The storage daemon of a volume: the daemon host that runs it (``Volume.daemon_host``), and its list of clients.

Each command contains the complete list of clients. A volume has one daemon at a time. The daemon runs on the pool's
host. In a shared pool it runs on the host of a guest if that host is admitted to the pool, otherwise on one of the
pool's hosts.
"""

import contextlib
import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from django.db.models import F, Q

from compute_agent.contract.volume import ConnectVolumeRequest, VolumeClient
from provisioning.common.errors import UnavailableError
from provisioning.hosts.commands import withdraw
from provisioning.hosts.models import Host
from provisioning.volumes.host_link.host_commands import NO_HOST, hosts_of, open_commands, send_to, spec_of
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.records import holds
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus

log = logging.getLogger(__name__)


def send_clients(volume: Volume, *, left: uuid.UUID | None = None) -> None:
    """Send the list of clients to each host that runs or ran a daemon of a locked volume, in the caller's transaction.

    ``left``: a host that gets an empty list if it has no clients. Nothing is sent while a hold shows that another host
    has the volume open. Clients are not sent while a host that has not reported since the restore may have it open.
    Raises UnavailableError if no host serves the pool.
    """
    if volume.pool is None:
        return
    if holds.elsewhere(volume):
        follow_hold(volume)
        if holds.elsewhere(volume):
            return
    using = _using(volume)
    host_id = _host_for(volume, using)
    if left is not None and left not in (host_id, volume.daemon_host_id):
        _send(volume, left, [])
    if volume.daemon_host_id != host_id:
        _end_daemon(volume)
        if volume.daemon_host_id is not None and volume.pool.shared:
            return  # no other host may open the data before this daemon has ended
    if not using:
        return
    if host_id is None:
        raise UnavailableError(NO_HOST)
    if holds.reason(volume):
        return
    set_daemon(volume, host_id)
    _send(volume, host_id, using)


def serve_again(host_id: uuid.UUID, pool_id: uuid.UUID, data_ids: Collection[uuid.UUID]) -> None:
    """Send a restarted host the clients of the volumes that it served before the restart, according to its report.

    Only the daemon host gets keys; a host without clients gets an empty list without a key. Volumes that have an
    unfinished command, or that another host may have open, are skipped.
    """
    mine = Q(id__in=data_ids, data_id=None) | Q(data_id__in=data_ids)
    ids = list(Volume.objects.filter(mine, pool_id=pool_id).order_by("id").values_list("id", flat=True))
    for volume in state.lock(ids).values():
        uncertain = holds.elsewhere(volume) or holds.unheard_hosts(volume)
        if not uncertain and not open_commands(volume.id).exists():
            using = _using(volume)
            _send(volume, host_id, using if _host_for(volume, using) == host_id else [])


def follow_hold(volume: Volume) -> None:
    """Set the daemon host of a locked volume to the host of a hold, if no other host has the volume open."""
    held = holds.successor(volume)
    if held is None or (host_id := holds.holder(held)) is None:
        return
    raise_version(volume, holds.number(held))
    _end_daemon(volume)
    set_daemon(volume, host_id)
    settle_hold(volume)


def end_hold(volume: Volume, host_id: uuid.UUID) -> None:
    """End the holds of a host on a locked volume, because the host no longer has the volume open."""
    for row in Attachment.objects.filter(volume_id=volume.id, connector__held_by=str(host_id)):
        raise_version(volume, holds.number(row))
        if holds.GUEST_HOST in row.connector:
            Attachment.objects.filter(id=row.id).update(connector=_without_mark(row))
        elif row.instance_id is None:
            row.delete()
        else:
            row.host, row.connection, row.status, row.connector = None, {}, AttachStatus.RESERVED, {}
            row.save(update_fields=["host", "connection", "status", "connector", "updated_at"])
    state.settle(volume)
    if volume.status in state.RESTING:
        with contextlib.suppress(UnavailableError):
            send_clients(volume)
    log.warning("Host %s no longer has volume %s open.", host_id, volume.id)


def _without_mark(row: Attachment) -> dict[str, Any]:
    return {
        name: value
        for name, value in row.connector.items()
        if name not in (holds.HELD_BY, holds.NUMBER, holds.GUEST_HOST)
    }


def settle_hold(volume: Volume) -> None:
    """Turn a hold into a normal attachment if its server is known and the locked volume has no other attachment."""
    rows = list(Attachment.objects.filter(volume_id=volume.id)[:2])
    if len(rows) == 1 and rows[0].instance_id and holds.HELD_BY in rows[0].connector and not holds.elsewhere(volume):
        Attachment.objects.filter(id=rows[0].id).update(connector={}, exclusive=not volume.multiattach)


def end_at_holder(volume: Volume, attachment: Attachment) -> None:
    """Set the daemon host of a volume to the host of a deleted hold.

    The daemon of that host then ends before another host opens the volume. Nothing is changed if the volume has other
    connected clients, or if a report is not sufficient to get its key.
    """
    host_id = holds.holder(attachment)
    if host_id is None:
        return
    raise_version(volume, holds.number(attachment))
    if holds.needs_proof(volume) or volume.pool is None or not volume.pool.shared:
        return
    connected = Attachment.objects.filter(volume_id=volume.id).exclude(connection={})
    if not connected.exists() and PoolHost.objects.filter(pool_id=volume.pool_id, host_id=host_id).exists():
        set_daemon(volume, host_id)


def raise_version(volume: Volume, seen: int) -> None:
    """Increase the volume's version to the one that a host has seen, so that the next command has a newer version."""
    if seen > volume.version:
        Volume.objects.filter(id=volume.id).update(version=seen)
        volume.version = seen


def set_daemon(volume: Volume, host_id: uuid.UUID | None) -> None:
    if volume.daemon_host_id != host_id:
        Volume.objects.filter(id=volume.id).update(daemon_host_id=host_id)
        volume.daemon_host_id = host_id


def _end_daemon(volume: Volume) -> None:
    """Send the daemon's host, if any, an empty list of clients. Its report unsets ``Volume.daemon_host``.

    A host that is forced down is not waited for, so the volume has no daemon host then. The host ends the daemon by the
    queued command when it is up again.
    """
    host_id = volume.daemon_host_id
    if host_id is None:
        return
    dead = _is_dead(host_id)
    if dead:
        withdraw(open_commands(volume.id).filter(host_id=host_id))
    _send(volume, host_id, [])
    if dead:
        set_daemon(volume, None)


def _using(volume: Volume) -> list[Attachment]:
    """Return the attachments of the volume that are connected to a host, or that wait for the connection."""
    return list(Attachment.objects.filter(volume_id=volume.id, host__isnull=False).order_by("created_at", "id"))


def _host_for(volume: Volume, using: Sequence[Attachment]) -> uuid.UUID | None:
    """Return the host on which the daemon serves these attachments; None without attachments, or if no host can."""
    if not using or volume.pool is None:
        return None
    daemon, candidates = volume.daemon_host_id, list[uuid.UUID]()
    if volume.pool.shared:  # only hosts that are admitted to the pool may open its data
        admitted = set(PoolHost.objects.filter(pool_id=volume.pool_id).values_list("host_id", flat=True))
        candidates = [each.host_id for each in using if each.host_id in admitted]
    if daemon is not None and (not volume.pool.shared or daemon in candidates):
        return daemon
    if daemon is not None and any(each.connection for each in using) and not _is_dead(daemon):
        return daemon  # other guests may use this daemon, so it does not move
    return next(iter(candidates or [host.id for host in hosts_of(volume.pool)]), None)


def _is_dead(host_id: uuid.UUID) -> bool:
    return Host.objects.filter(id=host_id, forced_down=True).exists()


def _send(volume: Volume, host_id: uuid.UUID, clients: Iterable[Attachment]) -> None:
    """Send a host its list of clients. An empty list ends the exports, however long the host was away."""
    listed = [client for each in clients for client in _clients_of(each, host_id)]
    Volume.objects.filter(id=volume.id).update(version=F("version") + 1)
    volume.version += 1  # each list has its own version, and hosts refuse older ones
    body = ConnectVolumeRequest(volume=spec_of(volume, with_key=bool(listed)), clients=listed)
    send_to(host_id, volume, body, beside=True, lasting=not listed)


def _clients_of(attachment: Attachment, daemon: uuid.UUID) -> Iterator[VolumeClient]:
    """Yield the guest of an attachment on its host, and on the host that it is being migrated to."""
    places = [(attachment.host_id, attachment.move)]
    if attachment.second_host_id is not None:
        places.append((attachment.second_host_id, attachment.moves))
    for host_id, move in places:
        yield VolumeClient(
            attachment_id=str(attachment.id),
            host_id=str(host_id),
            local=host_id == daemon,
            read_only=attachment.mode == "ro",
            move=move,
        )
