"""Data of deleted volumes that clones still need: counted in its pool, and in the quotas of the project that made it.

Hosts measure it: when a volume is deleted, and in every audit.  A row is an owner of its own in the quota ledger, and
counts though it passes a limit: then nothing more can be made until there is room again.
"""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass
class Measured:
    """Rows of one pool, each with its bytes as a host says; ``gone``: rows of data that is there no more."""

    pool: StoragePool
    rows: list[tuple[DeletedData, int]] = field(default_factory=list)
    gone: list[DeletedData] = field(default_factory=list)


def begin(volume: Volume, event: AgentEvent) -> int:
    """Hold in its project's quota what a volume that was deleted has left in its pool, as its host's report says
    (``detail["kept"]``).  Returns the GiB that the caller counts in the pool when it has done with quotas.
    """
    said = event.detail.get("kept", "")
    if volume.pool is None or not (said.isascii() and said.isdigit() and len(said) < 19) or int(said) == 0:
        return 0
    row, _ = DeletedData.objects.update_or_create(
        pool=volume.pool,
        data_id=uuid.UUID(data_id_of(volume)),
        defaults={"project_id": volume.project_id, "volume_type": volume.volume_type, "absent_since": None},
    )
    return _count_row(volume.pool, row, int(said))


def measure(pool: StoragePool, said: Mapping[str, int] | None, now: datetime) -> Measured:
    """Take over what a host has measured in a pool, in the caller's transaction, which ``count`` ends; None: the host
    does not say.

    Data that no record knows is counted in the pool alone.  A host that says as much as it may leaves out the smallest:
    nothing is absent then.
    """
    measured = Measured(pool)
    if said is None:
        return measured
    largest = sorted(said.items(), key=lambda item: item[1], reverse=True)[:MOST_KEPT]
    found = {key: size for name, size in largest if (key := read_id(name)) is not None}
    known = {row.data_id: row for row in DeletedData.objects.filter(pool=pool).select_related("volume_type")}
    for key, size in found.items():
        row = known.get(key) or DeletedData.objects.create(pool=pool, data_id=key)
        if row.absent_since is not None:
            DeletedData.objects.filter(pk=row.pk).update(absent_since=None)
        measured.rows.append((row, size or row.bytes))
    absent = [known[key] for key in known.keys() - found.keys()] if len(said) < MOST_KEPT else []
    for row in absent:
        if row.absent_since is None:
            row.absent_since = now
            DeletedData.objects.filter(pk=row.pk).update(absent_since=now)
        measured.rows.append((row, 0))
        if row.project_id is None or now - row.absent_since > FORGOTTEN_AFTER:
            measured.gone.append(row)
    return measured


def count(measured: Sequence[Measured]) -> None:
    """Count what was measured in several pools.

    Quotas come first, in the order of the projects, and then each pool once, in the order of their ids: whoever makes a
    volume locks them in this order.
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


def _count_row(pool: StoragePool, row: DeletedData, asked: int) -> int:
    """Count a row with so many bytes, in its quota; no host makes one larger than the pool.  Returns the GiB more."""
    size = min(max(asked, 0), int(pool.total_gb) * GIB)
    size_gb, before = -(-size // GIB), row.size_gb
    if (size, size_gb) == (row.bytes, before):
        return 0
    _hold(row, size_gb)
    row.bytes, row.size_gb = size, size_gb
    DeletedData.objects.filter(pk=row.pk).update(bytes=size, size_gb=size_gb)
    return size_gb - before


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
