"""Volumes that hosts have open for users whom the records do not know: kept for them, and given back to their servers.

The host of a volume's daemon keeps it for a guest whose attachment was lost.  Another host that is admitted to a shared
pool does so, too, when it reports clients and a newer number (``claim``): until one of the two hosts has no clients any
more, neither is told anything (``holds``).
"""

import contextlib
import logging
import uuid
from typing import Any

from django.utils import timezone

from compute_agent.contract.messages import AgentEvent, decode_command_body
from compute_agent.contract.volume import VOLUME, KnownVolume, VolumeClient
from provisioning.common.errors import UnavailableError
from provisioning.common.ids import read_id
from provisioning.hosts import commands
from provisioning.hosts.models import Host
from provisioning.volumes import holds, state
from provisioning.volumes.ends import end_of
from provisioning.volumes.holds import GUEST_HOST, HELD_BY, NUMBER
from provisioning.volumes.models import Attachment, PoolHost, Volume
from provisioning.volumes.services import daemons
from provisioning.volumes.services.attachments import MOST_OF_VOLUME
from provisioning.volumes.states import AttachStatus

log = logging.getLogger(__name__)

MOST_SAID = 20
"""Sentences that are kept about one volume."""
REASON = (
    "The host has seen newer changes of the volume than the records have: records are lost. Look at the volume, and try"
    " again."
)


def hold(volume: Volume, key: uuid.UUID, client: VolumeClient, host_id: uuid.UUID, seen: int) -> None:
    """Keep the volume for somebody who has it open: whoever is let in from now on is let in beside it, or refused.

    ``seen`` is the number that the host has seen.  A host's word is not enough to be given the key of a volume that any
    host of its pool reaches: hosts are told nothing of such a volume while it is kept so (``holds.needs_proof``).
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
    """Return whether a host that does not run the volume's daemon by the records may have opened it since."""
    if volume.pool is None or not volume.pool.shared or not known.clients or known.gone:
        return False
    return PoolHost.objects.filter(pool_id=volume.pool_id, host_id=host_id).exists()


def claim(volume: Volume, known: KnownVolume, host_id: uuid.UUID) -> None:
    """Keep a locked volume for the clients that another host than the daemon's says it has.

    An older number than that with which the daemon's host has clients proves nothing: that host has shut this one out.
    """
    if volume.lost.get("open", 0) >= known.version:
        log.warning("Host %s had volume %s open before its present host.", host_id, volume.id)
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
        log.warning("Host %s has volume %s open, which the records do not know.", host_id, volume.id)


def _mark(row: Attachment, client: VolumeClient, host_id: uuid.UUID, seen: int) -> None:
    """Note that a host has a volume open by an attachment which the records know elsewhere, or say so again."""
    mark: dict[str, Any] = {HELD_BY: str(host_id), NUMBER: seen}
    if row.connector.get(HELD_BY) != str(host_id) or GUEST_HOST in row.connector:
        mark[GUEST_HOST] = str(read_id(client.host_id) or host_id)
    Attachment.objects.filter(id=row.id).update(connector={**row.connector, **mark})


def end_waiting(volume: Volume, host_id: uuid.UUID | None = None) -> None:
    """Let the commands that a host, or (None) any host, has not heard of fail: they were sent in ignorance of what
    hosts have.
    """
    waiting = commands.unfinished(VOLUME, volume.id).filter(acknowledged_at=None)
    for command in waiting.filter(**({"host_id": host_id} if host_id else {})).order_by("created_at"):
        body, generation = decode_command_body(command.body), command.generation
        commands.finish(command.host_id, command.id)
        take = end_of(body)
        if take is not None and state.reread(volume) and generation == volume.generation:
            event = AgentEvent(
                seq=0, subject_kind=VOLUME, subject_id=str(volume.id), generation=generation, kind="failed",
                command_id=str(command.id), error_code="superseded", message=REASON,
            )  # fmt: skip
            take(volume, event, body, command.host_id)


def held_on(host_id: uuid.UUID) -> dict[uuid.UUID, Attachment]:
    """Return the attachments that are kept for guests of a host and belong to no server there yet, by their volumes;
    not those for which the host's word is not enough.
    """
    kept = Attachment.objects.filter(connector__has_key=HELD_BY)
    rows = kept.filter(host_id=host_id, instance_id=None) | kept.filter(connector__guest_host=str(host_id))
    found = {row.volume_id: row for row in rows.select_related("volume__pool")}
    return {key: row for key, row in found.items() if not holds.needs_proof(row.volume)}


def give(attachment: Attachment, instance_id: uuid.UUID, mountpoint: str) -> bool:
    """Let a server have the kept attachment by which its guest has the volume, in the caller's transaction.

    An attachment by which the records promise the volume to the same server is deleted.  The daemon is told its clients
    again, because its answer says how the guest is to open the volume from now on.  False, and nothing changes,
    when the attachment is kept no more, or is another server's.
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
    if volume.status in state.RESTING:  # the end of a task tells them too
        with contextlib.suppress(UnavailableError):
            daemons.tell_clients(volume)
    said = [*volume.lost.get("said", []), f"Attachment {attachment.id} is that of server {instance_id}."][-MOST_SAID:]
    state.update(volume, {"lost": {**volume.lost, "said": said}})
    return True
