"""Volumes that a host keeps open for somebody whom the records do not know, or know elsewhere.

Such a hold is an attachment with ``HELD_BY`` in its connector.  The host whose daemon has the volume by the records
holds it for a guest whose attachment was lost.  Another host of a shared pool holds it when it reports clients and a
newer number than the records have: the volume was opened there after the copy that was put back.  Nobody can say yet
which of the two hosts is right, so no host is told who may open the volume, and nothing changes it.

A host that was not heard of since a restore may have such a volume open, too (``PoolHost.heard``).
"""

import uuid
from collections.abc import Iterable
from typing import Any

from django.db.models import Q

from provisioning.common.ids import NOBODY, read_id
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, PoolHost, Volume

HELD_BY = "held_by"
"""In the connector of an attachment: the id of the host that has the volume open by its own word."""
NUMBER = "held_at"
"""Likewise: the newest number of the volume that the host had seen then."""
GUEST_HOST = "guest_host"
"""Likewise, of an attachment that the records know on another host: the host of its guest by that word."""
HELD = "A host has the volume open for an attachment that was lost with records. Delete that attachment first."
ELSEWHERE = (
    "Host {} has volume {} open, which the records do not know: records were lost. Detach it there, or delete the"
    " attachment."
)
UNHEARD = (
    "Volume {} may be open on a host that was not heard of since the records were restored: {}. Start its agent, force"
    " the host down if it is off, or remove it from the storage pool."
)


def is_held(volume_id: uuid.UUID) -> bool:
    """Return whether a volume is kept for somebody who has it open and whom no record knows."""
    return Attachment.objects.filter(volume_id=volume_id, connector__has_key=HELD_BY).exists()


def holder(attachment: Attachment) -> uuid.UUID | None:
    """Return the host that holds the volume by this attachment; None when none does."""
    return read_id(str(attachment.connector.get(HELD_BY, "")))


def number(attachment: Attachment) -> int:
    """Return the number of the volume that the holding host had seen; 0: it is not known."""
    return int(attachment.connector.get(NUMBER, 0))


def by_host(host_id: uuid.UUID) -> Iterable[Attachment]:
    """Return the holds of a host on volumes of shared pools, and those of others on volumes whose daemon it has."""
    held = Attachment.objects.filter(connector__has_key=HELD_BY, volume__pool__shared=True)
    return held.filter(Q(connector__held_by=str(host_id)) | Q(volume__daemon_host_id=host_id)).select_related("volume")


def unknown_connection(volume: Volume) -> dict[str, Any]:
    """Return the connection of an attachment whose guest has the volume open by a place that no record knows."""
    return {"export": str(volume.data_id or volume.id)}


def needs_proof(volume: Volume) -> bool:
    """Whether a host that says it has a volume open must not be given the volume's key on the ground of its word."""
    return bool(volume.encryption_key) and volume.pool is not None and volume.pool.shared


def elsewhere(volume: Volume) -> list[Attachment]:
    """Return the holds for which hosts are told nothing of a volume, the newest last.

    Those of a host that is no longer admitted to the pool do not count.
    """
    if volume.pool is None or not volume.pool.shared:
        return []
    held = Attachment.objects.filter(volume_id=volume.id, connector__has_key=HELD_BY)
    proof, found = needs_proof(volume), [row for row in held if needs_proof(volume) or _is_elsewhere(volume, row)]
    if not found:
        return []
    admitted = set(PoolHost.objects.filter(pool_id=volume.pool_id).values_list("host_id", flat=True))
    return sorted((row for row in found if proof or holder(row) in admitted), key=lambda row: (number(row), row.id))


def _is_elsewhere(volume: Volume, row: Attachment) -> bool:
    return GUEST_HOST in row.connector or holder(row) != volume.daemon_host_id


def successor(volume: Volume) -> Attachment | None:
    """Return the newest hold whose host takes the volume over, because nobody has it open at the daemon's by the
    records; None when there is none, or the records' host has not been heard of.

    A host's word alone never moves an encrypted volume.
    """
    held = [] if needs_proof(volume) else elsewhere(volume)
    if not held:
        return None
    rows = Attachment.objects.filter(volume_id=volume.id).exclude(connection={})
    if any(HELD_BY not in row.connector or GUEST_HOST in row.connector for row in rows):
        return None
    daemon = PoolHost.objects.filter(pool_id=volume.pool_id, host_id=volume.daemon_host_id or NOBODY, heard=False)
    if daemon.filter(host__forced_down=False).exists():
        return None
    holding = Attachment.objects.filter(volume_id=volume.id, connector__held_by=str(volume.daemon_host_id))
    return None if holding.exists() else held[-1]


def unheard_hosts(volume: Volume) -> list[str]:
    """Return the names of the hosts of a shared pool that may know of newer users of a volume: since its records were
    restored, they have not said what they have.  Not those that an operator says are dead.
    """
    if volume.copied is None or volume.pool is None or not volume.pool.shared:
        return []
    waiting = PoolHost.objects.filter(pool_id=volume.pool_id, heard=False, host__forced_down=False)
    return list(waiting.order_by("host__name").values_list("host__name", flat=True))


def reason(volume: Volume) -> str:
    """Say why nobody may open or change a volume of a shared pool now; empty when nothing speaks against it.

    One that the records' host has open for somebody is open nowhere else: hosts that are missing do not matter.
    """
    if held := elsewhere(volume):
        name = Host.objects.filter(id=holder(held[-1]) or NOBODY).values_list("name", flat=True).first()
        return ELSEWHERE.format(name, volume.id)
    unheard = unheard_hosts(volume)
    if not unheard:
        return ""
    connected = Attachment.objects.filter(volume_id=volume.id).exclude(connection={})
    if volume.daemon_host_id is not None and connected.exists():
        return ""
    return UNHEARD.format(volume.id, ", ".join(unheard[:5]))
