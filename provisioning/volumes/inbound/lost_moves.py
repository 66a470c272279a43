"""Recovers migrations of attached volumes whose records are lost, while the guest already writes to the new data.

The guest's host reports an attachment that is not in the database (``claim``). The host whose storage daemon exports
the new data reports the same attachment as its client. Then the hidden volume of the migration is created again
(``recover``), with a hold for the guest, and the migration is completed: the volume gets the data that the guest uses
(``migrate.swapped``).
"""

import contextlib
import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import Q
from django.utils import timezone

from compute_agent.contract.volume import KnownVolume
from provisioning.common.errors import UnavailableError
from provisioning.common.values.ids import read_id
from provisioning.volumes.models import Attachment, DeletedData, PoolHost, StoragePool, Volume
from provisioning.volumes.services.checks import SWAPPING
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.services.updates.migrate import FAILED
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import VolumeStatus

log = logging.getLogger(__name__)

Made = tuple[Volume, Volume, KnownVolume]
MOVED = "moved"
"""Key of ``Volume.lost``: the id of the attachment that the guest uses, which is not in the database."""
MOST = 500
"""Maximum number of volumes that are compared with one host's report."""
HAS = "Its server's guest on host {} has it by attachment {}, which has no record: its data was moved."
LOCKED = "The key of the data that its guest uses was lost with the records: detach it only when its data is copied."
FOLLOWED = (
    "It has the data that its guest switched to, by attachment {}; the previous data is deleted. Its type is still"
    " the type in the records."
)


def claim(volume_id: uuid.UUID, attachment_id: uuid.UUID, host: str) -> None:
    """Record that a guest uses a volume by an attachment that is not in the database; the doctor reports it.

    Runs in the caller's transaction. ``host``: the name of the guest's host.
    """
    volume = state.lock([volume_id]).get(volume_id)
    if volume is not None and volume.lost.get(MOVED) != str(attachment_id):
        _say(volume, HAS.format(host, attachment_id), {MOVED: str(attachment_id)}, host)


def recover(host_id: uuid.UUID, known: Mapping[uuid.UUID, KnownVolume]) -> Iterator[Made]:
    """Create the hidden volumes of lost migrations again, if the host reports their data as open.

    Yields the locked volume, its hidden volume, and the report about the hidden volume's data. The caller claims the
    capacity for the hidden volume in its pool. Encrypted volumes are skipped, because the key of the new data was lost.
    """
    clients = {
        client.attachment_id: key for key, each in known.items() if not each.gone for client in each.clients or ()
    }
    waiting = Volume.objects.filter(lost__has_key=MOVED).order_by("id") if clients else Volume.objects.none()
    lost = [row for row in waiting[:MOST] if row.lost[MOVED] in clients]
    for volume in state.lock([row.id for row in lost]).values():
        key = clients.get(volume.lost.get(MOVED, ""))
        pool = _pool(host_id, known[key]) if key is not None else None
        if key is None or pool is None or _is_known(key) or Volume.objects.filter(migration_of=volume.id).exists():
            continue
        if volume.encryption_key or known[key].encrypted:
            if LOCKED not in volume.lost.get("said", []):
                _say(volume, LOCKED, {}, str(volume.lost.get("host", "")))
            continue
        yield volume, _make(volume, key, pool, known[key], host_id), known[key]


def assign(attachment: Attachment, volume_id: uuid.UUID, instance_id: uuid.UUID) -> bool:
    """Assign the hold on the new data of a volume to the server of its guest.

    Returns False if the attachment is not a hold on new data of the volume, or belongs to another server.
    """
    if attachment.volume.migration_of != volume_id or attachment.instance_id not in (None, instance_id):
        return False
    Attachment.objects.filter(id=attachment.id).update(instance_id=instance_id, connector={})
    return True


def decide(volume_id: uuid.UUID) -> None:
    """Prepare a volume in ``error`` for the completion of its migration, although its host has deleted the old data."""
    if Volume.objects.filter(id=volume_id, status=VolumeStatus.ERROR).update(migration_status=FAILED):
        hidden = Volume.objects.filter(migration_of=volume_id)
        hidden.exclude(status=VolumeStatus.DELETING).update(migration_status=SWAPPING)


def followed(volume_id: uuid.UUID, attachment_id: uuid.UUID) -> None:
    """Record that the volume now has the data that its guest uses, and ask its daemon for the guest's connection."""
    volume = state.lock([volume_id]).get(volume_id)
    if volume is not None:
        lost = {name: value for name, value in volume.lost.items() if name != MOVED}
        _say(volume, FOLLOWED.format(attachment_id), {}, str(lost.get("host", "")), lost)
        if volume.status in state.RESTING:
            with contextlib.suppress(UnavailableError):
                daemons.send_clients(volume)


def _pool(host_id: uuid.UUID, known: KnownVolume) -> StoragePool | None:
    key = read_id(known.pool_id)
    admitted = PoolHost.objects.filter(host_id=host_id, pool_id=key).select_related("pool").first() if key else None
    return admitted.pool if admitted is not None else None


def _is_known(data_id: uuid.UUID) -> bool:
    volumes = Volume.objects.filter(Q(id=data_id) | Q(data_id=data_id))
    return volumes.exists() or DeletedData.objects.filter(data_id=data_id).exists()


def _make(volume: Volume, key: uuid.UUID, pool: StoragePool, known: KnownVolume, host_id: uuid.UUID) -> Volume:
    """Create the hidden volume of a migration again. Its type is unknown, so the volume's type is used."""
    log.warning("The data %s belongs to volume %s: the records of its migration are lost.", key, volume.id)
    return Volume.objects.create(
        id=key,
        project_id=volume.project_id,
        user_id=volume.user_id,
        name=volume.name,
        size_gb=max(known.size_gb, volume.size_gb),
        status=VolumeStatus.AVAILABLE,
        version=0,
        pool=pool,
        volume_type=volume.volume_type,
        availability_zone=pool.availability_zone,
        migration_of=volume.id,
        migration_status=SWAPPING,
        daemon_host_id=host_id,
        launched_at=timezone.now(),
    )


def _say(
    volume: Volume, sentence: str, more: Mapping[str, Any], host: str, lost: Mapping[str, Any] | None = None
) -> None:
    before = volume.lost if lost is None else lost
    sentences = [*before.get("said", []), sentence][-20:]
    at = f"{timezone.now():%Y-%m-%d %H:%M:%S}"
    state.update(volume, {"lost": {**before, "host": host, "at": at, "said": sentences, **more}})
