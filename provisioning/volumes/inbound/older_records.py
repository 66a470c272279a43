"""Compares the database with reports of hosts that have newer changes of volumes.

Hosts have newer changes after an older copy of the database was restored, or a failover lost the last transactions.
Nothing is detached, shrunk or deleted because the database is older. The host's version is adopted, so that the host
accepts later commands. A larger size is adopted too. A client that has the volume open gets a hold, so that no other
client can open the volume. Other differences are recorded for the doctor.

These rules apply to reports of the daemon host (``Volume.daemon_host``, whose storage daemon exports the volume). If
another host of a shared pool has the volume open with a newer version, the volume is left unchanged until one of the
two hosts has no clients (``kept_open.claim``).
"""

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from django.db.models import Q
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import MOST_KNOWN, ConnectVolumeRequest, KnownVolume
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.hosts.models import Host
from provisioning.hosts.restored import LEAP
from provisioning.hosts.subjects import newest_of
from provisioning.quotas.services.sizes import grow
from provisioning.volumes.host_link.host_commands import open_commands
from provisioning.volumes.inbound import kept_open, lost_moves
from provisioning.volumes.inbound.kept_open import MOST_SAID
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.pools import placement
from provisioning.volumes.records import holds, quota
from provisioning.volumes.services import messages
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.services.connections.attachments import MOST_OF_VOLUME
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus, VolumeStatus

log = logging.getLogger(__name__)

HIGHEST = 1 << 30
"""Maximum version that is accepted from a host, so that later versions fit into the column."""
Claims = Counter[uuid.UUID]
GONE = "Its data was deleted on its host after the backup from which the records were restored."


def compare(host_id: uuid.UUID, reported: Sequence[KnownVolume]) -> None:
    """Adopt the newer changes of volumes that a host reports, in the caller's transaction.

    In a host's first report after a restore, versions are also compared with those in the backup (``Volume.copied``).
    """
    known = {key: each for each in reported[:MOST_KNOWN] if (key := read_id(each.data_id)) is not None}
    more: Claims = Counter()
    believed = {key: each for key, each in known.items() if max(each.version, each.size_gb) <= HIGHEST}
    for moved, hidden, data in lost_moves.recover(host_id, believed):
        more[hidden.pool_id or NOBODY] += hidden.size_gb
        list(_size(moved, data, more))
    first = PoolHost.objects.filter(host_id=host_id, heard=False)
    pools = set(first.values_list("pool_id", flat=True))
    mine = Q(data_id=None, id__in=known) | Q(data_id__in=known)
    rows = Volume.objects.filter(mine).only("id", "data_id", "version", "copied", "status", "launched_at", "pool_id")
    newer = {row.id for row in rows if _is_newer(row, known[row.data_id or row.id], first=row.pool_id in pools)}
    held = {row.volume_id for row in holds.by_host(host_id)}
    locked = state.lock(newer | held).values()
    for volume in sorted(locked, key=lambda each: (str(each.project_id), each.id)):  # the locking order of quotas
        each = known.get(volume.data_id or volume.id)
        if each is not None and _is_newer(volume, each, first=volume.pool_id in pools):
            adopt(volume, each, host_id, more)
        elif each is not None and volume.daemon_host_id == host_id:
            _closed(volume, each, host_id, more)
        elif _has_no_clients(each) if each is not None else len(reported) < MOST_KNOWN:
            _end_hold(volume, host_id)
    _claim(more)
    if pools:
        first.update(heard=True)


def known_of(event: AgentEvent) -> KnownVolume | None:
    """Return the volume's state from the report of a host that refused a command; None if the state is not valid."""
    try:
        return msgspec.json.decode(event.detail.get("known", ""), type=KnownVolume)
    except msgspec.MsgspecError:
        return None


def refused(volume: Volume, event: AgentEvent, body: Any, host_id: uuid.UUID) -> bool:
    """Handle a host's refusal of a command of the volume's current generation; return whether the command has failed.

    The host also refuses a list of clients if it has already received a newer list. This is not a failure; the clients
    are sent again.
    """
    newest, known = newest_of(event), known_of(event)
    if newest is not None and volume.generation <= newest < HIGHEST:
        Volume.objects.filter(id=volume.id).update(generation=newest + 1)
        volume.generation = newest + 1
    if known is None:
        return True
    overtaken = body.volume.version < known.version <= volume.version and not _is_of_lost_records(volume, known)
    if overtaken and isinstance(body, ConnectVolumeRequest):
        daemons.send_clients(volume)
        return False
    if not overtaken:
        more: Claims = Counter()
        adopt(volume, known, host_id, more)
        _claim(more)
    return True


def _is_newer(volume: Volume, known: KnownVolume, *, first: bool) -> bool:
    """Return whether the host has a change of the volume that the database does not have.

    * The host's version is above the one in the database.
    * The host has deleted the data of a volume without a task.
    * In the ``first`` report after a restore: the host's version was assigned after the backup.
    """
    if known.version > volume.version:
        return True
    if known.gone and volume.launched_at is not None and volume.status in state.RESTING:
        return True
    return first and _is_of_lost_records(volume, known)


def _is_of_lost_records(volume: Volume, known: KnownVolume) -> bool:
    return volume.copied is not None and volume.copied < known.version < volume.copied + LEAP


def adopt(volume: Volume, known: KnownVolume, host_id: uuid.UUID, more: Claims) -> None:
    """Adopt the newer state of a locked volume that a host reports.

    ``more``: pool → additional GiB, which the caller claims after all volumes.
    """
    if known.version > HIGHEST:
        log.warning("Host %s reports volume %s without authority; it is ignored.", host_id, volume.id)
        return
    if known.version > volume.version:
        _adopt_others(volume, host_id)
    if _answers_for(volume, host_id):
        adopt_newer(volume, known, host_id, more)
    elif kept_open.may_claim(volume, known, host_id):
        kept_open.claim(volume, known, host_id)
    elif _has_no_clients(known):
        _end_hold(volume, host_id)
    else:
        log.warning("Host %s reports volume %s without authority; it is ignored.", host_id, volume.id)


def _adopt_others(volume: Volume, host_id: uuid.UUID) -> None:
    """Prepare a volume of a shared pool for changes of other hosts that the database has lost.

    Called when a host's report proves that the database has lost changes. Increases the version above every version
    that a host may have seen, as ``restored.restore_volumes`` does. The next reports of the other hosts are then
    compared with the previous version (``Volume.copied``).
    """
    serving = PoolHost.objects.filter(pool_id=volume.pool_id)
    if volume.pool is None or not volume.pool.shared or not serving.filter(host_id=host_id).exists():
        return
    if volume.copied is None and volume.version < HIGHEST - LEAP:
        volume.copied, volume.version = volume.version, volume.version + LEAP
        Volume.objects.filter(id=volume.id).update(copied=volume.copied, version=volume.version)
        serving.exclude(host_id=host_id).update(heard=False)


def _has_no_clients(known: KnownVolume) -> bool:
    return known.gone or known.clients == []


def _claim(more: Claims) -> None:
    """Claim the additional GiB of volumes in their pools.

    Runs after all quota updates: volume creation locks quotas and pools in the same order.
    """
    for pool_id, size_gb in sorted(more.items()):
        placement.claim_anyway(pool_id, size_gb)
        placement.release(pool_id, -size_gb)


def _closed(volume: Volume, known: KnownVolume, host_id: uuid.UUID, more: Claims) -> None:
    """Adopt the daemon host's report, so that a host with a hold can become the daemon host (``holds.successor``).

    Does nothing unless the daemon host has no clients and no unfinished command. The daemon host's version does not
    matter, because the database may have a newer version in this case.
    """
    commands = open_commands(volume.id).filter(host_id=host_id)
    if known.clients == [] and not known.gone and holds.elsewhere(volume) and not commands.exists():
        adopt_newer(volume, known, host_id, more)


def _end_hold(volume: Volume, host_id: uuid.UUID) -> None:
    """End the holds of a host that no longer has the volume open, if they prevent commands (``holds.elsewhere``)."""
    if any(holds.holder(row) == host_id for row in holds.elsewhere(volume)):
        daemons.end_hold(volume, host_id)


def adopt_newer(volume: Volume, known: KnownVolume, host_id: uuid.UUID, more: Claims) -> None:
    """Adopt the newer state of a locked volume from its host without losing data.

    Fails the host's unacknowledged commands.
    """
    daemons.raise_version(volume, known.version)
    sentences = [*_clients(volume, known, host_id)]  # first, because commands that fail send the host its clients again
    kept_open.end_waiting(volume, host_id)
    if not state.reread(volume):
        return
    sentences += [*_size(volume, known, more), *_data(volume, known)]
    name = Host.objects.filter(id=host_id).values_list("name", flat=True).first()
    lost: dict[str, Any] = {
        "host": name or str(host_id),
        "at": f"{timezone.now():%Y-%m-%d %H:%M:%S}",
        "said": sentences[:MOST_SAID],
    }
    if known.clients:
        lost["open"] = known.version
    state.update(volume, {"lost": lost})
    daemons.follow_hold(volume)
    log.warning("Host %s has newer changes of volume %s than the records. %s", name, volume.id, " ".join(sentences))


def _answers_for(volume: Volume, host_id: uuid.UUID) -> bool:
    """Return whether the host runs the volume's daemon, or serves its pool and no daemon is recorded."""
    if volume.daemon_host_id is not None:
        return volume.daemon_host_id == host_id
    return PoolHost.objects.filter(pool_id=volume.pool_id, host_id=host_id).exists()


def _size(volume: Volume, known: KnownVolume, more: Claims) -> Iterable[str]:
    """Adopt a larger size, even if the project's quota is exceeded; yield a sentence about the change."""
    size = known.size_gb
    if known.gone or size <= volume.size_gb or size > HIGHEST:
        return
    yield f"It was extended from {volume.size_gb} to {size} GiB."
    grow(volume.project_id, volume.id, quota.of_volume(volume.volume_type, size), refuse=False)
    if volume.pool_id is not None:
        more[volume.pool_id] += size - max(volume.size_gb, volume.wanted_gb or 0)
    state.update(volume, {"size_gb": size, "wanted_gb": None})


def _clients(volume: Volume, known: KnownVolume, host_id: uuid.UUID) -> Iterable[str]:
    if known.clients is None:
        return
    rows = {row.id: row for row in Attachment.objects.filter(volume_id=volume.id)}
    heard = known.clients[:MOST_OF_VOLUME]
    there = {key: client for client in heard if (key := read_id(client.attachment_id)) is not None}
    for key, client in there.items():
        if key not in rows:
            yield f"Attachment {key}, which has no record, has it open on host {client.host_id}."
            kept_open.hold(volume, key, client, host_id, known.version)
            _serve(volume, host_id)
    for key, row in rows.items():
        if key not in there and row.connection and len(heard) == len(known.clients) and _is_of(row, host_id):
            yield f"Attachment {key}, of server {row.instance_id}, no longer has it open."
            _close(row)
    if known.clients == [] and volume.pool is not None and volume.pool.shared and volume.daemon_host_id == host_id:
        daemons.set_daemon(volume, None)  # another host may open the data
    for row in holds.elsewhere(volume) if known.clients else ():
        if holds.holder(row) != host_id and holds.number(row) < known.version and row.instance_id is None:
            yield f"Attachment {row.id} had it open on another host before."
            row.delete()
    state.settle(volume)


def _is_of(row: Attachment, host_id: uuid.UUID) -> bool:
    """Return whether a host may report that an attachment was closed: the attachment is not a hold of another host."""
    return holds.holder(row) in (None, host_id) or holds.GUEST_HOST in row.connector


def _close(row: Attachment) -> None:
    """Record that an attachment's guest no longer has its volume open."""
    if row.instance_id is None and holds.HELD_BY in row.connector:
        row.delete()
        return
    row.host, row.connection, row.status = None, {}, AttachStatus.RESERVED
    row.save(update_fields=["host", "connection", "status", "updated_at"])


def _serve(volume: Volume, host_id: uuid.UUID) -> None:
    """Set the host as the daemon host if the volume has none and the host's report is sufficient."""
    if volume.daemon_host_id is None and not holds.needs_proof(volume):
        daemons.set_daemon(volume, host_id)


def is_unheard(volume: Volume) -> bool:
    """Return whether a host of the volume's pool has not reported since the restore, or the pool has no hosts.

    Such a host may have newer clients of the volume.
    """
    if volume.copied is None:
        return False
    hosts = PoolHost.objects.filter(pool_id=volume.pool_id)
    return hosts.filter(heard=False).exists() or not hosts.exists()


def _data(volume: Volume, known: KnownVolume) -> Iterable[str]:
    if known.gone and volume.status not in (VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING):
        yield GONE
        messages.of_volume(volume, messages.REACH, GONE)
        state.move(volume, VolumeStatus.ERROR, reset=True)
