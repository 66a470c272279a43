"""Updates pools from the reports of hosts.

The database determines which hosts serve a pool; a host's report alone does not. The host that creates a pool is the
pool's first host. Another host is admitted by an operator (``services.catalogue.pools.admit_host``), or if it knows the
secret that is stored in the pool, which proves that the host reaches the storage. A host that is not admitted is a
claimant: its reports are ignored and logged, and the doctor reports it. An admitted host stays admitted even if its
audits omit the pool.

Volume types choose pools by name and driver. The pools in a host's first report are enabled. A later pool is disabled
until an operator enables it (``doubt``) if it has the name or driver of another host's pool, or replaces a pool that
the host no longer reports. A pool keeps its driver and cannot adopt the name of another pool.
"""

import hashlib
import hmac
import logging
import math
import uuid
from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from django.db.models import Q
from django.utils import timezone

from compute_agent.contract.volume import PoolState
from provisioning.common.values.ids import read_id
from provisioning.common.values.text import one_line
from provisioning.hosts.models import DEFAULT_ZONE, Host
from provisioning.hosts.selectors import alive
from provisioning.volumes.models import PoolClaim, PoolHost, StoragePool, Volume
from provisioning.volumes.pools import deleted_data
from provisioning.volumes.state_machine.state import keep_still

log = logging.getLogger(__name__)

MOST_POOLS, MOST_UNSERVED = 100, 1000
"""Maximum number of pools that a host may report, and of volumes per pool whose keys a restarted host may ask for."""
DRIVERS = frozenset({"nbd", "dir", "rbd", "fake"})
TAKEN = "Its host now names it {}, which is the name of another pool."


def record(host_id: uuid.UUID, reported: Sequence[PoolState]) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Record the pools that a host serves now, in the caller's transaction.

    Returns pool → the volumes whose keys the host needs to serve them again; pools without such volumes are omitted.
    """
    now = timezone.now()
    served, claimed = set[uuid.UUID](), set[uuid.UUID]()
    is_first = not PoolHost.objects.filter(host_id=host_id).exists()
    waiting = dict[uuid.UUID, set[uuid.UUID]]()
    admitted = dict[uuid.UUID, tuple[StoragePool, PoolState]]()
    for state in reported[:MOST_POOLS]:
        key = read_id(state.id)
        if key is None or key in served or state.driver not in DRIVERS:
            continue
        pool = StoragePool.objects.filter(id=key).first() or _create(key, host_id, state, now, is_first=is_first)
        if pool is None:
            continue
        if not _is_admitted(pool, host_id, state, now):
            claimed.add(key)
            continue
        served.add(key)
        admitted[key] = pool, state
        unserved = {parsed for each in state.unserved[:MOST_UNSERVED] if (parsed := read_id(each)) is not None}
        if unserved:
            waiting[key] = unserved
    deleted_data.count(
        [
            deleted_data.measure(pool, state.kept, now)
            for pool, state in admitted.values()
            if _counts(pool, host_id, now)
        ]
    )
    for _, (pool, state) in sorted(admitted.items()):
        _measure(pool, host_id, state, now)
    PoolHost.objects.filter(host_id=host_id).exclude(pool_id__in=served).update(serving=False)
    PoolClaim.objects.filter(host_id=host_id).exclude(pool_id__in=claimed).delete()
    return waiting


def lock_unserved(reported: Sequence[PoolState]) -> None:
    """Lock the volumes whose clients will be sent to a host again. Must run before quotas and pools are locked."""
    named = {each for pool in reported[:MOST_POOLS] for each in pool.unserved[:MOST_UNSERVED]}
    if keys := {key for each in named if (key := read_id(each)) is not None}:
        keep_still(Volume.objects.filter(Q(id__in=keys, data_id=None) | Q(data_id__in=keys)))


def _create(
    key: uuid.UUID, host_id: uuid.UUID, state: PoolState, now: datetime, *, is_first: bool
) -> StoragePool | None:
    """Create a new pool with its first host. Returns None if the host has reached its maximum number of pools."""
    if PoolHost.objects.filter(host_id=host_id).count() >= MOST_POOLS:
        log.warning("Host %s serves %s pools already; pool %s is ignored.", host_id, MOST_POOLS, key)
        return None
    zone = Host.objects.values_list("availability_zone", flat=True).filter(id=host_id).first()
    columns = {"availability_zone": zone or DEFAULT_ZONE, "last_seen_at": now, **_columns(state)}
    if state.secret:
        columns["secret_digest"] = _digest(state.secret)
    if doubt := _doubt(host_id, one_line(state.name, 255), state.driver, is_first=is_first):
        columns |= {"enabled": False, "disabled_reason": doubt, "doubt": doubt}
    pool, created = StoragePool.objects.get_or_create(id=key, defaults=columns)
    if created:
        PoolHost.objects.create(pool=pool, host_id=host_id, last_seen_at=now)
        if doubt:
            log.warning("Pool %s (%s) of host %s is disabled: %s", pool.name, key, host_id, doubt)
    return pool


def _doubt(host_id: uuid.UUID, name: str, driver: str, *, is_first: bool) -> str:
    """Return why an operator must enable a new pool of a host; "" if it can be enabled immediately."""
    mine = StoragePool.objects.filter(servings__host_id=host_id)
    before = mine.filter(name=name, driver=driver).first()
    if before is not None:
        return f"Its host had another pool of this name and driver ({before.id}), whose folder may not be mounted."
    if is_first:
        return ""
    if StoragePool.objects.filter(Q(name__in=[name, driver]) | Q(driver=name)).exists():
        return "Its host announces it later than its first pools, under the name of another pool."
    if StoragePool.objects.filter(driver=driver).exists() and not mine.filter(driver=driver).exists():
        return "Its host announces it later than its first pools, with a driver that only others had."
    return ""


def _is_admitted(pool: StoragePool, host_id: uuid.UUID, state: PoolState, now: datetime) -> bool:
    """Return whether a host is admitted to a pool.

    Admits a host that proves the pool's secret, if the pool is shared or has no host, and the first host of an empty
    pool. The claim of any other host is recorded for an operator.
    """
    if PoolHost.objects.filter(pool=pool, host_id=host_id).exists():
        return True
    alone = not PoolHost.objects.filter(pool=pool).exists()
    proven = bool(pool.secret_digest) and hmac.compare_digest(_digest(state.secret), pool.secret_digest)
    if (proven and (alone or (pool.shared and state.shared))) or (alone and not pool.volumes.exists()):
        PoolHost.objects.create(pool=pool, host_id=host_id, last_seen_at=now, heard=not has_copied(pool))
        log.info("Host %s is admitted to pool %s (%s).", host_id, pool.name, pool.id)
        return True
    _, created = PoolClaim.objects.update_or_create(pool=pool, host_id=host_id, defaults={"last_seen_at": now})
    if created:
        log.warning("Host %s claims pool %s (%s), to which it is not admitted.", host_id, pool.name, pool.id)
    return False


def has_copied(pool: StoragePool) -> bool:
    """Return whether a restore of the database has left volumes in the pool on which hosts have not reported since.

    A host that is admitted now may have such a volume open, with newer changes than the database.
    """
    return pool.volumes.exclude(copied=None).exists()


def _counts(pool: StoragePool, host_id: uuid.UUID, now: datetime) -> bool:
    """Return whether the columns of a pool are updated from this host's reports.

    This is so for the first admitted host that is up and serves the pool.
    """
    answering = PoolHost.objects.filter(alive(now, "host__"), pool=pool).filter(Q(serving=True) | Q(host_id=host_id))
    return host_id == answering.order_by("id").values_list("host_id", flat=True).first()


def _measure(pool: StoragePool, host_id: uuid.UUID, state: PoolState, now: datetime) -> None:
    """Store a host's report in its ``PoolHost``, and in the pool if the host's reports count (``_counts``)."""
    warning = one_line(state.warning, 500)
    mine = PoolHost.objects.filter(pool=pool)
    mine.filter(host_id=host_id).update(serving=True, warning=warning, last_seen_at=now)
    columns: dict[str, object] = {"last_seen_at": now}
    if _counts(pool, host_id, now):
        columns |= _columns(state) | {"driver": pool.driver}
        if columns["name"] != pool.name and StoragePool.objects.filter(name=columns["name"]).exists():
            columns |= {"name": pool.name, "warning": one_line(TAKEN.format(state.name), 500)}
    first = mine.order_by("id").values_list("host_id", flat=True).first()
    if state.secret and (host_id == first or not pool.secret_digest):
        columns["secret_digest"] = _digest(state.secret)
    StoragePool.objects.filter(id=pool.id).update(**columns)


def _columns(state: PoolState) -> dict[str, object]:
    """Return the columns of a pool from a host's report."""
    return {
        "name": one_line(state.name, 255),
        "driver": state.driver,
        "shared": state.shared,
        "total_gb": _amount(state.total_gb),
        "free_gb": _amount(state.free_gb),
        "capabilities": {one_line(a, 64): one_line(b, 255) for a, b in islice(state.capabilities.items(), 50)},
        "warning": one_line(state.warning, 500),
    }


def _digest(secret: str) -> str:
    """Return the stored digest of a pool's secret. It needs no salt, because the secret is random and long."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _amount(value: float) -> float:
    return max(value, 0.0) if math.isfinite(value) else 0.0
