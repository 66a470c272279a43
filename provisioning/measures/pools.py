"""Measures of storage pools: a point each minute, from the sizes that their hosts report."""

from datetime import UTC, datetime

from django.db.models import Exists, OuterRef

from provisioning.hosts.selectors import alive
from provisioning.measures.codes import MOST, encode, pack
from provisioning.measures.collect import LATE, store
from provisioning.measures.resolutions import SLOTS_A_MINUTE
from provisioning.volumes.models import PoolHost, StoragePool

POOL_SERIES = ("used", "allocated", "size")
"""GiB: the used space of the pool's file system or cluster, the sizes of its volumes, the size of the pool."""


def collect_pools(now: float) -> None:
    """Store the present sizes as the points of the last two minutes, so that a late run leaves no gap.

    Pools without a host that is up get none.
    """
    up = alive(datetime.fromtimestamp(now, UTC), "host__")
    served = PoolHost.objects.filter(up, pool=OuterRef("pk"), serving=True)
    rows = StoragePool.objects.filter(Exists(served), total_gb__gt=0)
    records = rows.values_list("id", "total_gb", "free_gb", "allocated_gb")
    points = {key: _point(total, free, allocated) for key, total, free, allocated in records}
    until = int((now - LATE) // 60) * SLOTS_A_MINUTE
    for first in (until - 2 * SLOTS_A_MINUTE, until - SLOTS_A_MINUTE):
        slots = range(first, first + SLOTS_A_MINUTE)
        store(first, {key: dict.fromkeys(slots, point) for key, point in points.items()}, len(POOL_SERIES))


def _point(total: float, free: float, allocated: int) -> bytes:
    """Return the codes of the series; hosts report any finite sizes from 0 on."""
    return pack([encode(min(max(amount, 0.0), MOST)) for amount in (total - free, allocated, total)])
