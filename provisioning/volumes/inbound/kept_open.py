"""Creates holds for clients that have a volume open without a record, and assigns holds to servers (see ``holds``).

If the daemon host of a volume (``Volume.daemon_host``, whose storage daemon exports the volume) reports a guest whose
attachment was lost, the guest gets a hold (``hold``). If another host of a shared pool reports clients and a newer
version, its clients get holds (``claim``). Then no host gets commands about the volume's clients until the daemon host
or the other host has no clients.
"""

import contextlib
import logging
import uuid
from typing import Any

from django.utils import timezone

from compute_agent.contract.messages import AgentEvent, decode_command_body
from compute_agent.contract.volume import VOLUME, KnownVolume, VolumeClient
from provisioning.common.errors import UnavailableError
from provisioning.common.values.ids import read_id
from provisioning.hosts import commands
from provisioning.hosts.models import Host
from provisioning.volumes import tasks
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.records import holds
from provisioning.volumes.records.holds import GUEST_HOST, HELD_BY, NUMBER
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.services.connections.attachments import MOST_OF_VOLUME
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus

log = logging.getLogger(__name__)

MOST_SAID = 20
"""Maximum number of sentences about differences in ``Volume.lost``."""
REASON = "The host has newer changes of the volume than the records: records are lost. Check the volume, and try again."


def hold(volume: Volume, key: uuid.UUID, client: VolumeClient, host_id: uuid.UUID, seen: int) -> None:
    """Create a hold for a client that has the volume open; does nothing if the attachment ``key`` exists.

    ``seen``: the version that the host reports. A multiattach volume can still be attached to other servers. While an
    encrypted volume of a shared pool has a hold, hosts get no commands about its clients, because a report is not
    sufficient to get the key (``holds.needs_proof``).
    """
    host = Host.objects.filter(id=read_id(client.host_id) or host_id).first()
    if host is None or Attachment.objects.filter(id=key).exists():
        return
    Attachment.objects.create(
        id=key,
        volume=volume,
        project_id=volume.project_id,
        host=host,
        exclusive=False,
        mode="ro" if client.read_only else "rw",
        status=AttachStatus.ATTACHED,
        connector={HELD_BY: str(host_id), NUMBER: seen},
        connection=holds.unknown_connection(volume),
    )


def may_claim(volume: Volume, known: KnownVolume, host_id: uuid.UUID) -> bool:
    """Return whether a host other than the daemon host may have opened the volume after the backup."""
    if volume.pool is None or not volume.pool.shared or not known.clients or known.gone:
        return False
    return PoolHost.objects.filter(pool_id=volume.pool_id, host_id=host_id).exists()


def claim(volume: Volume, known: KnownVolume, host_id: uuid.UUID) -> None:
    """Create holds on a locked volume for the clients that a host other than the daemon host reports.

    A report is ignored if the daemon host has reported clients with the same or a newer version: then the daemon host
    has opened the volume later.
    """
    if volume.lost.get("open", 0) >= known.version:
        log.warning("Host %s had volume %s open before its current host.", host_id, volume.id)
        return
    rows = {row.id: row for row in Attachment.objects.filter(volume_id=volume.id)}
    room = max(MOST_OF_VOLUME - len(rows), 1)
    for client in (known.clients or ())[:MOST_OF_VOLUME]:
        key = read_id(client.attachment_id)
        if key is None:
            continue
        if (row := rows.get(key)) is not None:
            _mark(row, client, host_id, known.version)
        elif room > 0:
            hold(volume, key, client, host_id, known.version)
            room -= 1
    end_waiting(volume)
    if state.reread(volume):
        state.settle(volume)
        daemons.follow_hold(volume)
        log.warning("Host %s has volume %s open without a record.", host_id, volume.id)


def _mark(row: Attachment, client: VolumeClient, host_id: uuid.UUID, seen: int) -> None:
    """Turn an attachment into a hold, because another host than the recorded one has the volume open for it."""
    mark: dict[str, Any] = {HELD_BY: str(host_id), NUMBER: seen}
    if row.connector.get(HELD_BY) != str(host_id) or GUEST_HOST in row.connector:
        mark[GUEST_HOST] = str(read_id(client.host_id) or host_id)
    Attachment.objects.filter(id=row.id).update(connector={**row.connector, **mark})


def end_waiting(volume: Volume, host_id: uuid.UUID | None = None) -> None:
    """Fail the unacknowledged commands about a volume, because they are based on outdated records.

    ``host_id``: only commands to this host; None: commands to all hosts.
    """
    waiting = commands.unfinished(VOLUME, volume.id).filter(acknowledged_at=None)
    for command in waiting.filter(**({"host_id": host_id} if host_id else {})).order_by("created_at"):
        body, generation = decode_command_body(command.body), command.generation
        commands.finish(command.host_id, command.id)
        if state.reread(volume) and generation == volume.generation:
            event = AgentEvent(
                seq=0, subject_kind=VOLUME, subject_id=str(volume.id), generation=generation, kind="failed",
                command_id=str(command.id), error_code="superseded", message=REASON,
            )  # fmt: skip
            tasks.end(volume, event, body, command.host_id)


def held_on(host_id: uuid.UUID) -> dict[uuid.UUID, Attachment]:
    """Return volume id → the hold of a guest on this host that must still be assigned to its server.

    Holds on encrypted volumes of shared pools are omitted, because a report is not sufficient to get their keys.
    """
    kept = Attachment.objects.filter(connector__has_key=HELD_BY)
    rows = kept.filter(host_id=host_id, instance_id=None) | kept.filter(connector__guest_host=str(host_id))
    by_volume = {row.volume_id: row for row in rows.select_related("volume__pool")}
    return {key: row for key, row in by_volume.items() if not holds.needs_proof(row.volume)}


def assign(attachment: Attachment, instance_id: uuid.UUID, mountpoint: str) -> bool:
    """Assign a hold to the server whose guest has the volume open, in the caller's transaction.

    Deletes other attachments of the volume to the same server. Sends the volume's daemon its list of clients again,
    because the daemon's answer contains the connection that the attachment needs. Returns False and changes nothing if
    the attachment is no longer a hold, or already belongs to another server.
    """
    volume = state.lock([attachment.volume_id]).get(attachment.volume_id)
    kept = Attachment.objects.filter(id=attachment.id, connector__has_key=HELD_BY)
    row = kept.first()
    moved = row is not None and GUEST_HOST in row.connector
    if volume is None or row is None or row.instance_id != (instance_id if moved else None):
        return False
    others = Attachment.objects.filter(volume_id=volume.id).exclude(id=attachment.id)
    others.filter(instance_id=instance_id).delete()
    changes: dict[str, Any] = {"instance_id": instance_id, "mountpoint": mountpoint, "updated_at": timezone.now()}
    if moved:
        changes |= {"host_id": read_id(str(row.connector[GUEST_HOST])), "status": AttachStatus.ATTACHED}
        changes |= {"connection": holds.unknown_connection(volume)}
        changes |= {"connector": {HELD_BY: row.connector[HELD_BY], NUMBER: holds.number(row)}}
    kept.update(**changes)
    daemons.follow_hold(volume)
    daemons.settle_hold(volume)
    state.settle(volume)
    if volume.status in state.RESTING:  # otherwise the clients are sent when the task ends
        with contextlib.suppress(UnavailableError):
            daemons.send_clients(volume)
    sentences = [*volume.lost.get("said", []), f"Attachment {attachment.id} belongs to server {instance_id}."][
        -MOST_SAID:
    ]
    state.update(volume, {"lost": {**volume.lost, "said": sentences}})
    return True
