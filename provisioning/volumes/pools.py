"""Takes what hosts say of their pools into the records."""

import math
import uuid
from collections.abc import Sequence
from itertools import islice

from django.utils import timezone

from compute_agent.contract.volume import PoolState
from provisioning.common.ids import read_id
from provisioning.common.text import one_line
from provisioning.hosts.models import DEFAULT_ZONE, Host
from provisioning.volumes.models import PoolHost, StoragePool

MOST_POOLS, MOST_UNSERVED = 100, 1000
DRIVERS = frozenset({"nbd", "dir", "rbd", "fake"})


def take(host_id: uuid.UUID, said: Sequence[PoolState]) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Write down the pools that a host serves now, in the caller's transaction; it serves no others any more.

    Returns pool → the volumes of which the host waits to be told the keys again, where there are any.

    A pool that another host serves alone is not taken over: somebody has copied its id.
    """
    now, zone = timezone.now(), Host.objects.values_list("availability_zone", flat=True).filter(id=host_id).first()
    served, waiting = set[uuid.UUID](), dict[uuid.UUID, set[uuid.UUID]]()
    for pool in said[:MOST_POOLS]:
        key = read_id(pool.id)
        if key is None or key in served or pool.driver not in DRIVERS:
            continue
        others = PoolHost.objects.filter(pool_id=key).exclude(host_id=host_id)
        known = StoragePool.objects.filter(id=key).first()
        if known is not None and not (known.shared and pool.shared) and others.exists():
            continue
        measured = {
            "name": one_line(pool.name, 255),
            "driver": pool.driver,
            "shared": pool.shared,
            "total_gb": _amount(pool.total_gb),
            "free_gb": _amount(pool.free_gb),
            "capabilities": {one_line(a, 64): one_line(b, 255) for a, b in islice(pool.capabilities.items(), 50)},
            "warning": one_line(pool.warning, 500),
            "last_seen_at": now,
        }
        if known is None:
            StoragePool.objects.create(id=key, availability_zone=zone or DEFAULT_ZONE, **measured)
        else:
            StoragePool.objects.filter(id=key).update(**measured)
        PoolHost.objects.update_or_create(pool_id=key, host_id=host_id, defaults={"last_seen_at": now})
        served.add(key)
        unserved = {found for each in pool.unserved[:MOST_UNSERVED] if (found := read_id(each)) is not None}
        if unserved:
            waiting[key] = unserved
    PoolHost.objects.filter(host_id=host_id).exclude(pool_id__in=served).delete()
    return waiting


def _amount(value: float) -> float:
    return max(value, 0.0) if math.isfinite(value) else 0.0
