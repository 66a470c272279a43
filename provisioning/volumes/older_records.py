"""Records of volumes that are older than a host: a copy of the database was put back, or
a failure took the last transactions.

Nothing is detached, shrunk or deleted on the ground of such records.  The host's number is taken over, so that the next
command counts; the larger size is; who has the volume open keeps it, held by an attachment that belongs to no server,
so that nobody else is given it.  What else differs is written down for the doctor.
"""

import contextlib
import logging
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from django.db.models import Q
from django.utils import timezone

from compute_agent.contract.messages import AgentEvent, decode_command_body
from compute_agent.contract.volume import (
    MOST_KNOWN,
    VOLUME,
    ConnectVolumeRequest,
    KnownVolume,
    VolumeClient,
)
from provisioning.common.errors import UnavailableError
from provisioning.common.ids import read_id
from provisioning.hosts import commands
from provisioning.hosts.models import Host
from provisioning.hosts.restored import LEAP
from provisioning.hosts.subjects import newest_of
from provisioning.quotas.services.sizes import grow
from provisioning.volumes import placement, quota, state
from provisioning.volumes.ends import end_of
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.services import attachments, messages
from provisioning.volumes.services.attachments import HELD_BY, MOST_OF_VOLUME
from provisioning.volumes.states import AttachStatus, VolumeStatus

log = logging.getLogger(__name__)

HIGHEST = 1 << 30
"""A host's number above this one is not believed: later ones must fit into the column."""
MOST_SAID = 20
"""Sentences that are kept about one volume."""
REASON = (
    "The host has seen newer changes of the volume than the records have: records are lost. Look at the volume, and try"
    " again."
)
GONE = "Its data was deleted on its host after the copy that the records were restored from."


def compare(host_id: uuid.UUID, said: Sequence[KnownVolume]) -> None:
    """Look for volumes of which a host has seen newer changes, in the caller's transaction."""
    known = {key: each for each in said[:MOST_KNOWN] if (key := read_id(each.data_id)) is not None}
    mine = Q(data_id=None, id__in=known) | Q(data_id__in=known)
    rows = Volume.objects.filter(mine).only("id", "data_id", "version", "copied", "status", "launched_at")
    newer = [row.id for row in rows if _is_newer(row, known[row.data_id or row.id])]
    for volume in state.lock(newer).values():
        each = known[volume.data_id or volume.id]
        if _is_newer(volume, each):
            take_over(volume, each, host_id)


def known_of(event: AgentEvent) -> KnownVolume | None:
    """Read what the host of a refused command knows of its volume; None when it does not say."""
    try:
        return msgspec.json.decode(event.detail.get("known", ""), type=KnownVolume)
    except msgspec.MsgspecError:
        return None


def refused(volume: Volume, event: AgentEvent, body: Any, host_id: uuid.UUID) -> bool:
    """Take the refusal of a command of the volume's own generation; return whether the command has failed by it.

    It has not when commands have only overtaken each other: the host is told again who may open the volume.
    """
    newest, known = newest_of(event), known_of(event)
    if newest is not None and volume.generation <= newest < HIGHEST:
        Volume.objects.filter(id=volume.id).update(generation=newest + 1)
        volume.generation = newest + 1
    if known is None:
        return True
    overtaken = body.volume.version < known.version <= volume.version and volume.copied is None
    if overtaken and isinstance(body, ConnectVolumeRequest):
        attachments.tell_clients(volume)
        return False
    if not overtaken:
        take_over(volume, known, host_id)
    return True


def _is_newer(volume: Volume, known: KnownVolume) -> bool:
    """Whether the host has seen a change that the records do not have.

    Its number is above the record's, or was given to nobody since a copy was restored; or it has deleted the data.
    """
    if known.version > volume.version:
        return True
    if known.gone and volume.launched_at is not None and volume.status in state.RESTING:
        return True
    return volume.copied is not None and volume.copied < known.version < volume.copied + LEAP


def take_over(volume: Volume, known: KnownVolume, host_id: uuid.UUID) -> None:
    """Bring a locked volume to what its host knows, as far as nothing is lost by it; end what waits for the host."""
    if not _answers_for(volume, host_id) or known.version > HIGHEST:
        log.warning("Host %s claims to know volume %s; it is ignored.", host_id, volume.id)
        return
    volume.version = max(volume.version, known.version)
    Volume.objects.filter(id=volume.id).update(version=volume.version)
    state.update(volume, {"copied": None})
    said = [*_clients(volume, known, host_id)]  # first: whatever ends tells the host again who may open the volume
    _end_waiting(volume, host_id)
    if not state.reread(volume):
        return
    said += [*_size(volume, known), *_data(volume, known)]
    name = Host.objects.filter(id=host_id).values_list("name", flat=True).first()
    lost = {"host": name or str(host_id), "at": f"{timezone.now():%Y-%m-%d %H:%M:%S}", "said": said[:MOST_SAID]}
    state.update(volume, {"lost": lost})
    log.warning("Host %s has seen newer changes of volume %s than the records. %s", name, volume.id, " ".join(said))


def _answers_for(volume: Volume, host_id: uuid.UUID) -> bool:
    """Whether the host runs the volume's daemon, or serves its pool while no other host does."""
    if volume.daemon_host_id is not None:
        return volume.daemon_host_id == host_id
    return PoolHost.objects.filter(pool_id=volume.pool_id, host_id=host_id).exists()


def _end_waiting(volume: Volume, host_id: uuid.UUID) -> None:
    """Let the commands that the host has not heard of fail: they were sent in ignorance of what it has."""
    waiting = commands.unfinished(VOLUME, volume.id).filter(host_id=host_id, acknowledged_at=None)
    for command in waiting.order_by("created_at"):
        body, generation = decode_command_body(command.body), command.generation
        commands.finish(host_id, command.id)
        take = end_of(body)
        if take is not None and state.reread(volume) and generation == volume.generation:
            event = AgentEvent(
                seq=0, subject_kind=VOLUME, subject_id=str(volume.id), generation=generation, kind="failed",
                command_id=str(command.id), error_code="superseded", message=REASON,
            )  # fmt: skip
            take(volume, event, body, host_id)


def _size(volume: Volume, known: KnownVolume) -> Iterable[str]:
    """Take the larger size; the quota follows, even past its limit."""
    size = known.size_gb
    if known.gone or size <= volume.size_gb or size > HIGHEST:
        return
    yield f"It was extended from {volume.size_gb} to {size} GiB."
    grow(volume.project_id, volume.id, quota.of_volume(volume.volume_type, size), refuse=False)
    placement.claim_anyway(volume.pool_id, size - max(volume.size_gb, volume.wanted_gb or 0))
    state.update(volume, {"size_gb": size, "wanted_gb": None})


def _clients(volume: Volume, known: KnownVolume, host_id: uuid.UUID) -> Iterable[str]:
    if known.clients is None:
        return
    rows = {row.id: row for row in Attachment.objects.filter(volume_id=volume.id)}
    heard = known.clients[:MOST_OF_VOLUME]
    there = {key: client for client in heard if (key := read_id(client.attachment_id)) is not None}
    for key, client in there.items():
        if key not in rows:
            yield f"Attachment {key}, which no record knows, has it open on host {client.host_id}."
            _hold(volume, key, client, host_id)
    for key, row in rows.items():
        if key not in there and row.connection and len(heard) == len(known.clients):
            yield f"Attachment {key}, of server {row.instance_id}, has it open no more."
            row.host, row.connection, row.status = None, {}, AttachStatus.RESERVED
            row.save(update_fields=["host", "connection", "status", "updated_at"])
    state.settle(volume)


def _hold(volume: Volume, key: uuid.UUID, client: VolumeClient, host_id: uuid.UUID) -> None:
    """Keep the volume for somebody who has it open: whoever is let in from now on is let in beside it, or refused.

    A host's word is not enough to be given the key of a volume that any host of its pool reaches: hosts are told
    nothing of such a volume while it is kept so (``attachments.needs_proof``).
    """
    host = Host.objects.filter(id=read_id(client.host_id) or host_id).first()
    if host is None or Attachment.objects.filter(id=key).exists():
        return
    if attachments.needs_proof(volume) and volume.multiattach:
        return  # whoever is let in beside it is told to a daemon with the key
    Attachment.objects.create(
        id=key,
        volume=volume,
        project_id=volume.project_id,
        host=host,
        exclusive=False,
        mode="ro" if client.read_only else "rw",
        status=AttachStatus.ATTACHED,
        connector={HELD_BY: str(host_id)},
        connection=attachments.unknown_connection(volume),
    )
    if volume.daemon_host_id is None and not attachments.needs_proof(volume):
        Volume.objects.filter(id=volume.id).update(daemon_host_id=host_id)
        volume.daemon_host_id = host_id


def is_unheard(volume: Volume) -> bool:
    """Whether nothing has changed a volume since its records were restored: its host may know of newer users."""
    return volume.copied is not None and volume.version == volume.copied + LEAP


def held_on(host_id: uuid.UUID) -> dict[uuid.UUID, Attachment]:
    """Return the attachments that are kept for guests of a host and belong to no server yet, by their volumes; not
    those for which the host's word is not enough.
    """
    rows = Attachment.objects.filter(host_id=host_id, instance_id=None, connector__has_key=HELD_BY)
    found = {row.volume_id: row for row in rows.select_related("volume__pool")}
    return {key: row for key, row in found.items() if not attachments.needs_proof(row.volume)}


def give(attachment: Attachment, instance_id: uuid.UUID, mountpoint: str) -> bool:
    """Let a server have the kept attachment by which its guest has the volume, in the caller's transaction.

    An attachment by which the records promise the volume to the same server is deleted.  The daemon is told its clients
    again, because its answer says how the guest is to open the volume from now on.  False, and nothing changes,
    when the attachment is kept no more.
    """
    volume = state.lock([attachment.volume_id]).get(attachment.volume_id)
    kept = Attachment.objects.filter(id=attachment.id, instance_id=None, connector__has_key=HELD_BY)
    if volume is None or not kept.exists():
        return False
    others = Attachment.objects.filter(volume_id=volume.id).exclude(id=attachment.id)
    others.filter(instance_id=instance_id).delete()
    changes: dict[str, Any] = {"instance_id": instance_id, "mountpoint": mountpoint, "updated_at": timezone.now()}
    if not others.exists():
        changes |= {"connector": {}, "exclusive": not volume.multiattach}
    kept.update(**changes)
    state.settle(volume)
    if volume.status in state.RESTING:  # the end of a task tells them too
        with contextlib.suppress(UnavailableError):
            attachments.tell_clients(volume)
    said = [*volume.lost.get("said", []), f"Attachment {attachment.id} is that of server {instance_id}."][-MOST_SAID:]
    state.update(volume, {"lost": {**volume.lost, "said": said}})
    return True


def _data(volume: Volume, known: KnownVolume) -> Iterable[str]:
    if known.gone and volume.status not in (VolumeStatus.DELETING, VolumeStatus.ERROR_DELETING):
        yield GONE
        messages.of_volume(volume, messages.REACH, GONE)
        state.move(volume, VolumeStatus.ERROR, reset=True)
