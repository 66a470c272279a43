"""Data of deleted volumes that clones still need. It counts in its pool and in the quotas of its volume's project.

Hosts measure the data when the volume is deleted and in every audit. Each ``DeletedData`` row has its own usage in the
quota ledger. The usage is counted even if it exceeds the limit; the project then cannot create volumes until the usage
is below the limit again.
"""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import MOST_KEPT
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.common.values.numbers import GIB
from provisioning.quotas.services.ledger import release
from provisioning.quotas.services.sizes import grow, shrink
from provisioning.volumes.host_link.host_commands import data_id_of
from provisioning.volumes.models import DeletedData, StoragePool, Volume, VolumeType
from provisioning.volumes.pools import placement
from provisioning.volumes.records import quota

FORGOTTEN_AFTER = timedelta(hours=1)
"""How long a row is kept after its data disappears from the pool, because a late audit may still report it."""


@dataclass
class Measured:
    """The rows of one pool with the bytes that a host reported; ``gone``: rows whose data no longer exists."""

    pool: StoragePool
    rows: list[tuple[DeletedData, int]] = field(default_factory=list)
    gone: list[DeletedData] = field(default_factory=list)


def begin(volume: Volume, event: AgentEvent) -> int:
    """Count, in the project's quota, the data that a deleted volume leaves in its pool.

    The volume's host reports the size in bytes (``event.detail["kept"]``). Returns the GiB by which the pool's
    allocation changes; the caller changes it after all quotas, in the locking order.
    """
    size = event.detail.get("kept", "")
    if volume.pool is None or not (size.isascii() and size.isdigit() and len(size) < 19) or int(size) == 0:
        return 0
    row, _ = DeletedData.objects.update_or_create(
        pool=volume.pool,
        data_id=uuid.UUID(data_id_of(volume)),
        defaults={"project_id": volume.project_id, "volume_type": volume.volume_type, "absent_since": None},
    )
    return _count_row(volume.pool, row, int(size))


def measure(pool: StoragePool, sizes: Mapping[str, int] | None, now: datetime) -> Measured:
    """Match the sizes that a host has measured with the pool's rows. Runs in the caller's transaction.

    ``sizes``: id of the data → bytes; None if the host does not report sizes. For data without a row, a row without a
    project is created, which only counts in the pool. A report of maximum length may be incomplete, so data that it
    omits still counts. The caller passes the result to ``count``.
    """
    measured = Measured(pool)
    if sizes is None:
        return measured
    largest = sorted(sizes.items(), key=lambda item: item[1], reverse=True)[:MOST_KEPT]
    kept = {key: size for name, size in largest if (key := read_id(name)) is not None}
    known = {row.data_id: row for row in DeletedData.objects.filter(pool=pool).select_related("volume_type")}
    for key, size in kept.items():
        row = known.get(key) or DeletedData.objects.create(pool=pool, data_id=key)
        if row.absent_since is not None:
            DeletedData.objects.filter(pk=row.pk).update(absent_since=None)
        measured.rows.append((row, size or row.bytes))
    absent = [known[key] for key in known.keys() - kept.keys()] if len(sizes) < MOST_KEPT else []
    for row in absent:
        if row.absent_since is None:
            row.absent_since = now
            DeletedData.objects.filter(pk=row.pk).update(absent_since=now)
        measured.rows.append((row, 0))
        if row.project_id is None or now - row.absent_since > FORGOTTEN_AFTER:
            measured.gone.append(row)
    return measured


def count(measured: Sequence[Measured]) -> None:
    """Count the measured data of several pools in the quotas and in the pools.

    The quotas are locked first, in the order of the projects, then the pools, in the order of their ids. Volume
    creation uses the same locking order.
    """
    rows = [(each.pool, row, size) for each in measured for row, size in each.rows]
    more = Counter[uuid.UUID]()
    for pool, row, size in sorted(rows, key=lambda each: (str(each[1].project_id), each[1].id)):
        more[pool.id] += _count_row(pool, row, size)
    for pool_id, size_gb in sorted(more.items()):
        placement.claim_anyway(pool_id, size_gb)
        placement.release(pool_id, -size_gb)
    for each in measured:
        for row in each.gone:
            row.delete()


def _count_row(pool: StoragePool, row: DeletedData, requested: int) -> int:
    """Update the row's size and its project's quota usage. Returns the additional GiB.

    ``requested``: the reported bytes; the stored size is at most the size of the pool.
    """
    size = min(max(requested, 0), int(pool.total_gb) * GIB)
    size_gb, before = -(-size // GIB), row.size_gb
    if (size, size_gb) == (row.bytes, before):
        return 0
    _hold(row, size_gb)
    row.bytes, row.size_gb = size, size_gb
    DeletedData.objects.filter(pk=row.pk).update(bytes=size, size_gb=size_gb)
    return size_gb - before


def _hold(row: DeletedData, size_gb: int) -> None:
    """Update the quota usage of the project that owned the volume."""
    if row.project_id is None:
        return
    amounts = quota.of_deleted(row.volume_type, size_gb)
    try:
        grow(row.project_id, row.id, amounts, refuse=False)
    except NotFoundError:  # the project was deleted
        row.project_id = None
        DeletedData.objects.filter(pk=row.pk).update(project_id=None)
    shrink(row.id, amounts)


def disown(project_ids: Sequence[uuid.UUID]) -> None:
    """Stop counting the data of deleted projects in quotas; it still counts in its pools."""
    DeletedData.objects.filter(project_id__in=project_ids).update(project_id=None)


def forget_type(volume_type: VolumeType) -> None:
    """Stop counting data in the quotas of a volume type that is being deleted.

    The data still counts in the total quotas of its projects.
    """
    for row in DeletedData.objects.filter(volume_type=volume_type).order_by("project_id", "id"):
        release(row.id, keep=quota.of_deleted(None, 0))
    DeletedData.objects.filter(volume_type=volume_type).update(volume_type=None)


def forget(pool: StoragePool) -> None:
    """Release the quotas of a pool's deleted data, and delete its rows."""
    for row in DeletedData.objects.filter(pool=pool):
        release(row.id)
        row.delete()
