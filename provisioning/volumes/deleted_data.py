"""Data of deleted volumes that clones still need: counted in its pool, and in the quotas of the project that made it.

Hosts measure it: when a volume is deleted, and in every audit.  A row is an owner of its own in the quota ledger, and
counts though it passes a limit: then nothing more can be made until there is room again.
"""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import MOST_KEPT
from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.common.numbers import GIB
from provisioning.quotas.services.ledger import release
from provisioning.quotas.services.sizes import grow, shrink
from provisioning.volumes import placement, quota
from provisioning.volumes.host_commands import data_id_of
from provisioning.volumes.models import DeletedData, StoragePool, Volume, VolumeType

FORGOTTEN_AFTER = timedelta(hours=1)
"""For which a row stays when its pool no longer has the data: an audit may be older than the deletion."""


def begin(volume: Volume, event: AgentEvent) -> None:
    """Count what a volume that was deleted has left in its pool, as its host's report says (``detail["kept"]``)."""
    said = event.detail.get("kept", "")
    if volume.pool is None or not (said.isascii() and said.isdigit() and len(said) < 19) or int(said) == 0:
        return
    row, _ = DeletedData.objects.update_or_create(
        pool=volume.pool,
        data_id=uuid.UUID(data_id_of(volume)),
        defaults={"project_id": volume.project_id, "volume_type": volume.volume_type, "absent_since": None},
    )
    _count(volume.pool, [(row, int(said))])


def take(pool: StoragePool, said: Mapping[str, int] | None, now: datetime) -> None:
    """Take over what a host has measured in a pool, in the caller's transaction; None: the host does not say.

    Data that no record knows is counted in the pool alone.  A host that says as much as it may leaves out the smallest:
    nothing is absent then.
    """
    if said is None:
        return
    largest = sorted(said.items(), key=lambda item: item[1], reverse=True)[:MOST_KEPT]
    found = {key: size for name, size in largest if (key := read_id(name)) is not None}
    known = {row.data_id: row for row in DeletedData.objects.filter(pool=pool).select_related("volume_type")}
    measured = list[tuple[DeletedData, int]]()
    for key, size in found.items():
        row = known.get(key) or DeletedData.objects.create(pool=pool, data_id=key)
        if row.absent_since is not None:
            DeletedData.objects.filter(pk=row.pk).update(absent_since=None)
        measured.append((row, size or row.bytes))
    absent = [known[key] for key in known.keys() - found.keys()] if len(said) < MOST_KEPT else []
    for row in absent:
        if row.absent_since is None:
            row.absent_since = now
            DeletedData.objects.filter(pk=row.pk).update(absent_since=now)
    _count(pool, measured + [(row, 0) for row in absent])
    for row in absent:
        if row.project_id is None or (row.absent_since and now - row.absent_since > FORGOTTEN_AFTER):
            row.delete()


def _count(pool: StoragePool, measured: Sequence[tuple[DeletedData, int]]) -> None:
    """Count rows of a pool with so many bytes each; no host makes one larger than the pool.

    Quotas come first, in the order of the projects, and the pool once: whoever makes a volume locks them in this order.
    """
    largest, more = int(pool.total_gb) * GIB, 0
    for row, asked in sorted(measured, key=lambda each: (str(each[0].project_id), each[0].id)):
        size = min(max(asked, 0), largest)
        size_gb = -(-size // GIB)
        if (size, size_gb) == (row.bytes, row.size_gb):
            continue
        _hold(row, size_gb)
        more += size_gb - row.size_gb
        row.bytes, row.size_gb = size, size_gb
        DeletedData.objects.filter(pk=row.pk).update(bytes=size, size_gb=size_gb)
    placement.claim_anyway(pool.id, more)
    placement.release(pool.id, -more)


def _hold(row: DeletedData, size_gb: int) -> None:
    """Hold so much of the quotas of the project that made it."""
    if row.project_id is None:
        return
    amounts = quota.of_deleted(row.volume_type, size_gb)
    try:
        grow(row.project_id, row.id, amounts, refuse=False)
    except NotFoundError:  # the project is gone
        row.project_id = None
        DeletedData.objects.filter(pk=row.pk).update(project_id=None)
    shrink(row.id, amounts)


def disown(project_ids: Sequence[uuid.UUID]) -> None:
    """Count the data of projects that are deleted in its pools alone."""
    DeletedData.objects.filter(project_id__in=project_ids).update(project_id=None)


def forget_type(volume_type: VolumeType) -> None:
    """Count the data of a type that is deleted in sum alone."""
    for row in DeletedData.objects.filter(volume_type=volume_type).order_by("project_id", "id"):
        release(row.id, keep=quota.of_deleted(None, 0))
    DeletedData.objects.filter(volume_type=volume_type).update(volume_type=None)


def forget(pool: StoragePool) -> None:
    """Give back what is held for a pool that is forgotten."""
    for row in DeletedData.objects.filter(pool=pool):
        release(row.id)
        row.delete()
