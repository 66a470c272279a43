"""Where a new volume lies: pools as states for the pure scheduler, the claim of room, and what the clock says of both.

``StoragePool.allocated_gb`` moves only here.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Exists, F, FloatField, OuterRef
from django.db.models.expressions import ExpressionWrapper
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import read_id
from provisioning.hosts.selectors import alive
from provisioning.scheduler.pools import PoolDecision, PoolRequest, PoolView, decide_pool, explain_pool
from provisioning.volumes.errors import VolumeNotFoundError
from provisioning.volumes.models import DeletedData, PoolHost, StoragePool, Volume, VolumeType
from provisioning.volumes.offered import offered
from provisioning.volumes.selectors.access import visible_volumes

HINTS = ("same_host", "different_host")


def pool_views() -> list[PoolView]:
    """Return every pool as decisions see it."""
    served = PoolHost.objects.filter(alive(timezone.now(), "host__"), pool=OuterRef("pk"), serving=True)
    return [
        PoolView(
            id=pool.id,
            name=pool.name,
            driver=pool.driver,
            zone=pool.availability_zone,
            total_gb=pool.total_gb,
            free_gb=pool.free_gb,
            allocated_gb=pool.allocated_gb,
            reserved_percentage=pool.reserved_percentage,
            max_over_subscription_ratio=pool.max_over_subscription_ratio,
            capabilities={
                name: str(value).lower() if isinstance(value, bool) else value for name, value in offered(pool).items()
            },
            enabled=pool.enabled,
            alive=pool.is_alive,
            frozen=pool.frozen,
            warning=pool.warning,
        )
        for pool in StoragePool.objects.annotate(is_alive=Exists(served)).order_by("name", "id")
    ]


def request_of(
    context: RequestContext,
    *,
    size_gb: int,
    volume_type: VolumeType | None,
    zone: str = "",
    source_pool_id: uuid.UUID | None = None,
    hints: Mapping[str, Any] | None = None,
) -> PoolRequest:
    """Write what a volume asks of its pool.  Raises InvalidInputError and VolumeNotFoundError for its hints."""
    same, different = (_pools_named(context, (hints or {}).get(name)) for name in HINTS)
    if source_pool_id is not None:
        same = frozenset({source_pool_id}) if same is None else same & {source_pool_id}
    specs = {str(key): str(value) for key, value in volume_type.extra_specs.items()} if volume_type else {}
    return PoolRequest(
        size_gb=size_gb,
        zone=zone,
        extra_specs=specs,
        encrypted=volume_type is not None and hasattr(volume_type, "encryption"),
        multiattach=allows_multiattach(volume_type),
        same=same,
        different=different or frozenset(),
    )


def allows_multiattach(volume_type: VolumeType | None) -> bool:
    """Whether volumes of a type may have several users: ``multiattach`` is ``<is> True``."""
    said = str(volume_type.extra_specs.get("multiattach", "")) if volume_type else ""
    return said.replace(" ", "").lower() == "<is>true"


def _pools_named(context: RequestContext, hint: Any) -> frozenset[uuid.UUID] | None:
    """Return the pools of the volumes that a hint names; None when it names none."""
    if not hint:
        return None
    named = [hint] if isinstance(hint, str) else hint
    if not isinstance(named, list | tuple) or not all(isinstance(each, str) for each in named):
        raise InvalidInputError("A hint names volumes by their ids.", field="scheduler_hints")
    ids = {read_id(each) for each in named}
    rows = visible_volumes(context).filter(id__in=[each for each in ids if each])
    found = dict(rows.values_list("id", "pool_id"))
    if None in ids or found.keys() != ids:
        raise VolumeNotFoundError(next(each for each in named if read_id(each) not in found))
    return frozenset(pool_id for pool_id in found.values())


def place(request: PoolRequest) -> tuple[uuid.UUID | None, str]:
    """Claim room in the best pool, in the caller's transaction; return its id, or None and why there is none."""
    decision = decide_pool(pool_views(), request)
    for each in decision.ranked:
        if claim(each.pool.id, request.size_gb):
            return each.pool.id, ""
    if decision.ranked:  # somebody else has just taken the room
        decision = decide_pool(pool_views(), request)
        for each in decision.ranked:
            if claim(each.pool.id, request.size_gb):
                return each.pool.id, ""
    return None, explain_pool(decision) if not decision.ranked else "The room was taken at this moment. Try again."


def dry_run(request: PoolRequest) -> tuple[PoolDecision, str]:
    """Say where a volume would lie now, and why; nothing is claimed."""
    decision = decide_pool(pool_views(), request)
    return decision, explain_pool(decision)


def claim(pool_id: uuid.UUID, size_gb: int) -> bool:
    """Claim so much more of a pool, by one conditional update: whether there was room."""
    limit = ExpressionWrapper(
        F("total_gb") * (100.0 - F("reserved_percentage")) / 100.0 * F("max_over_subscription_ratio") - size_gb,
        output_field=FloatField(),
    )
    rows = StoragePool.objects.filter(id=pool_id, enabled=True, frozen=False, allocated_gb__lte=limit)
    return bool(rows.update(allocated_gb=F("allocated_gb") + size_gb))


def claim_anyway(pool_id: uuid.UUID | None, size_gb: int) -> None:
    """Write down so much more of a pool: it is taken already."""
    if pool_id is not None and size_gb > 0:
        StoragePool.objects.filter(id=pool_id).update(allocated_gb=F("allocated_gb") + size_gb)


def release(pool_id: uuid.UUID | None, size_gb: int) -> None:
    """Give back what was claimed of a pool; never below nothing."""
    if pool_id is None or size_gb <= 0:
        return
    rows = StoragePool.objects.filter(id=pool_id)
    if not rows.filter(allocated_gb__gte=size_gb).update(allocated_gb=F("allocated_gb") - size_gb):
        rows.update(allocated_gb=0)


def sums(pool_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return pool → what its volumes, and the data of deleted ones, add up to."""
    found = dict.fromkeys(pool_ids, 0)
    rows = Volume.objects.filter(pool_id__in=found).values_list("pool_id", "size_gb", "wanted_gb")
    for pool_id, size, wanted in rows:
        if pool_id is not None:
            found[pool_id] += max(size, wanted or 0)
    for pool_id, size in DeletedData.objects.filter(pool_id__in=found).values_list("pool_id", "size_gb"):
        found[pool_id] += size
    return found
