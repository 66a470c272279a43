"""Holds: attachments of clients that have a volume open according to a host, but not according to the database.

The database has lost the attachment, or has it on another host. A hold is an attachment with ``HELD_BY`` in its
connector. It is created after a report of one of these hosts:

* The daemon host of the volume (``Volume.daemon_host``, whose storage daemon exports the volume), for a guest whose
  attachment was lost.
* Another host of a shared pool, if it reports clients and a newer version of the volume than the database has: it has
  opened the volume after the backup from which the database was restored. It is unknown which of the hosts is right, so
  hosts get no commands about the volume's clients, and the volume cannot be changed.

A host that has not reported since a restore may also have such a volume open (``PoolHost.heard``).
"""

import uuid
from collections.abc import Iterable
from typing import Any

from django.db.models import Q

from provisioning.common.values.ids import NOBODY, read_id
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, PoolHost, Volume

HELD_BY = "held_by"
"""Key of an attachment's connector: the id of the host that reports the volume as open."""
NUMBER = "held_at"
"""Key of the connector: the newest version of the volume that the host has reported."""
GUEST_HOST = "guest_host"
"""Key of the connector: the guest's host in the report; only set if the database has the attachment on another host."""
HELD = "A host has the volume open for an attachment that was lost with records. Delete that attachment first."
ELSEWHERE = "Host {} has volume {} open without a record: records were lost. Detach it there, or delete the attachment."
UNHEARD = (
    "Volume {} may be open on a host that has not reported since the records were restored: {}. Start its agent, force"
    " the host down if it is off, or remove it from the storage pool."
)


def is_held(volume_id: uuid.UUID) -> bool:
    """Return whether a volume has a hold."""
    return Attachment.objects.filter(volume_id=volume_id, connector__has_key=HELD_BY).exists()


def holder(attachment: Attachment) -> uuid.UUID | None:
    """Return the host of a hold; None if the attachment is not a hold."""
    return read_id(str(attachment.connector.get(HELD_BY, "")))


def number(attachment: Attachment) -> int:
    """Return the newest version of the volume that the host of a hold has reported; 0: unknown."""
    return int(attachment.connector.get(NUMBER, 0))


def by_host(host_id: uuid.UUID) -> Iterable[Attachment]:
    """Return the holds, in shared pools, that this host reported or whose volume it serves."""
    held = Attachment.objects.filter(connector__has_key=HELD_BY, volume__pool__shared=True)
    return held.filter(Q(connector__held_by=str(host_id)) | Q(volume__daemon_host_id=host_id)).select_related("volume")


def unknown_connection(volume: Volume) -> dict[str, Any]:
    """Return the value of ``Attachment.connection`` of a guest that has the volume open by an unknown connection."""
    return {"export": str(volume.data_id or volume.id)}


def needs_proof(volume: Volume) -> bool:
    """Return whether a host's report is not sufficient to get the key: the volume is encrypted and its pool shared."""
    return bool(volume.encryption_key) and volume.pool is not None and volume.pool.shared


def elsewhere(volume: Volume) -> list[Attachment]:
    """Return the holds that prevent commands about a volume's clients, in ascending order of their versions.

    Holds of hosts that are no longer admitted to the pool are ignored, unless the volume is encrypted.
    """
    if volume.pool is None or not volume.pool.shared:
        return []
    rows = Attachment.objects.filter(volume_id=volume.id, connector__has_key=HELD_BY)
    held = sorted(rows, key=lambda row: (number(row), row.id))
    if needs_proof(volume):
        return held
    held = [row for row in held if GUEST_HOST in row.connector or holder(row) != volume.daemon_host_id]
    admitted = PoolHost.objects.filter(pool_id=volume.pool_id, host_id__in=[holder(row) for row in held])
    hosts = set(admitted.values_list("host_id", flat=True)) if held else set()
    return [row for row in held if holder(row) in hosts]


def successor(volume: Volume) -> Attachment | None:
    """Return the newest hold whose host can replace the volume's daemon host.

    Returns None while the present daemon host has clients or has not reported since the restore, and for encrypted
    volumes, because a report never changes their daemon host.
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
    """Return the names of hosts that may have a volume of a shared pool open, but have not reported since the restore.

    Hosts that are forced down are omitted.
    """
    if volume.copied is None or volume.pool is None or not volume.pool.shared:
        return []
    waiting = PoolHost.objects.filter(pool_id=volume.pool_id, heard=False, host__forced_down=False)
    return list(waiting.order_by("host__name").values_list("host__name", flat=True))


def reason(volume: Volume) -> str:
    """Return why a volume of a shared pool must not be opened or changed now; "" if it may be.

    If the daemon host has clients of the volume, no other host has the volume open, so hosts that have not reported are
    ignored.
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
