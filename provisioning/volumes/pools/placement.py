"""Placement of new volumes: the states of pools for the scheduler, and the claims of their capacity.

``StoragePool.allocated_gb`` is changed only here.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, F, FloatField, OuterRef
from django.db.models.expressions import ExpressionWrapper
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.hosts.selectors import alive
from provisioning.scheduler.pools import PoolDecision, PoolRequest, PoolView, decide_pool, explain_pool
from provisioning.volumes.errors import VolumeNotFoundError
from provisioning.volumes.models import DeletedData, PoolHost, StoragePool, Volume, VolumeType
from provisioning.volumes.selectors.access import visible_volumes
from provisioning.volumes.selectors.types import default_type, type_for

HINTS = ("same_host", "different_host")

_WORDS = {"true": True, "false": False}
_NAMES = {"online_extend": "online_extend_support"}
"""Names in hosts' reports → names in Cinder."""

MOST = 100
"""Maximum number of volumes that is shown to callers who may not see pools."""


def pool_views() -> list[PoolView]:
    """Return all pools, as the scheduler sees them."""
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
    """Return the requirements of a volume for its pool.  Raises InvalidInputError and VolumeNotFoundError for invalid
    hints.
    """
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
    """Return whether volumes of a type may have several attachments: ``multiattach`` is ``<is> True``."""
    spec = str(volume_type.extra_specs.get("multiattach", "")) if volume_type else ""
    return spec.replace(" ", "").lower() == "<is>true"


def _pools_named(context: RequestContext, hint: Any) -> frozenset[uuid.UUID] | None:
    """Return the pools of the volumes in a hint; None if the hint is empty."""
    if not hint:
        return None
    named = [hint] if isinstance(hint, str) else hint
    if not isinstance(named, list | tuple) or not all(isinstance(each, str) for each in named):
        raise InvalidInputError("A hint must contain ids of volumes.", field="scheduler_hints")
    ids = {read_id(each) for each in named}
    rows = visible_volumes(context).filter(id__in=[each for each in ids if each])
    pools = dict(rows.values_list("id", "pool_id"))
    if None in ids or pools.keys() != ids:
        raise VolumeNotFoundError(next(each for each in named if read_id(each) not in pools))
    return frozenset(pool_id for pool_id in pools.values())


def place(request: PoolRequest) -> tuple[uuid.UUID | None, str]:
    """Claim capacity of the best pool in the caller's transaction; return its id, or None and the reason."""
    decision = decide_pool(pool_views(), request)
    for each in decision.ranked:
        if claim(each.pool.id, request.size_gb):
            return each.pool.id, ""
    if decision.ranked:  # concurrent requests have claimed the capacity
        decision = decide_pool(pool_views(), request)
        for each in decision.ranked:
            if claim(each.pool.id, request.size_gb):
                return each.pool.id, ""
    return None, explain_pool(decision) if not decision.ranked else "Another request took the capacity. Try again."


def dry_run(request: PoolRequest) -> tuple[PoolDecision, str]:
    """Return the decision for a new volume, with its explanation; nothing is claimed."""
    decision = decide_pool(pool_views(), request)
    return decision, explain_pool(decision)


def claim(pool_id: uuid.UUID, size_gb: int) -> bool:
    """Claim capacity of a pool by a conditional update; return whether it had enough."""
    limit = ExpressionWrapper(
        F("total_gb") * (100.0 - F("reserved_percentage")) / 100.0 * F("max_over_subscription_ratio") - size_gb,
        output_field=FloatField(),
    )
    rows = StoragePool.objects.filter(id=pool_id, enabled=True, frozen=False, allocated_gb__lte=limit)
    return bool(rows.update(allocated_gb=F("allocated_gb") + size_gb))


def claim_anyway(pool_id: uuid.UUID | None, size_gb: int) -> None:
    """Add to a pool's allocation for data that already exists, even if the pool has not enough capacity."""
    if pool_id is not None and size_gb > 0:
        StoragePool.objects.filter(id=pool_id).update(allocated_gb=F("allocated_gb") + size_gb)


def release(pool_id: uuid.UUID | None, size_gb: int) -> None:
    """Release claimed capacity of a pool; the counter never becomes negative."""
    if pool_id is None or size_gb <= 0:
        return
    rows = StoragePool.objects.filter(id=pool_id)
    if not rows.filter(allocated_gb__gte=size_gb).update(allocated_gb=F("allocated_gb") - size_gb):
        rows.update(allocated_gb=0)


def sums(pool_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return pool → the sum of the sizes of its volumes and of the data of deleted volumes."""
    result = dict.fromkeys(pool_ids, 0)
    rows = Volume.objects.filter(pool_id__in=result).values_list("pool_id", "size_gb", "wanted_gb")
    for pool_id, size, requested in rows:
        if pool_id is not None:
            result[pool_id] += max(size, requested or 0)
    for pool_id, size in DeletedData.objects.filter(pool_id__in=result).values_list("pool_id", "size_gb"):
        result[pool_id] += size
    return result


def offered(pool: StoragePool) -> dict[str, str | bool]:
    """Return the static capabilities of a pool. "true" and "false" in hosts' reports become booleans."""
    reported = {str(name): str(value) for name, value in pool.capabilities.items()}
    return {
        "volume_backend_name": pool.name,
        "pool_name": pool.name,
        "driver_version": "1.0",
        "storage_protocol": pool.driver,
        "vendor_name": "Novella",
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
        "multiattach": True,
        "QoS_support": True,
        "location_info": f"{pool.driver}:{pool.id}",
        **{_NAMES.get(name, name): _WORDS.get(value.lower(), value) for name, value in reported.items()},
    }


@dataclass(frozen=True, slots=True)
class VolumeFit:
    """The result: ``fits`` volumes of this size would fit; ``pools`` is for operators only."""

    size_gb: int
    volume_type: str
    decision: PoolDecision
    sentence: str
    pools: tuple[tuple[str, int, int], ...]
    """Name, number of volumes that fit, and maximum size of one (GiB), in the order of the scheduler."""

    @property
    def fits(self) -> int:
        return sum(many for _, many, _ in self.pools)


def would_fit(
    context: RequestContext,
    size_gb: int,
    *,
    volume_type: str = "",
    zone: str = "",
    hints: Mapping[str, Any] | None = None,
) -> VolumeFit:
    """Return how many volumes of this size would fit. The default type is the default type of the caller's project.

    Raises InvalidInputError, NotFoundError for the type and VolumeNotFoundError for the hints.
    """
    if not 1 <= size_gb <= MAX_INTEGER:
        raise InvalidInputError("A volume must have at least 1 GiB.", field="size")
    kind = type_for(context, volume_type) if volume_type else default_type(context.project_id or NOBODY)
    request = request_of(context, size_gb=size_gb, volume_type=kind, zone=zone, hints=hints)
    decision, sentence = dry_run(request)
    pools = tuple((each.pool.name, each.pool.left_gb // size_gb, each.pool.left_gb) for each in decision.ranked)
    return VolumeFit(size_gb, kind.name if kind else "", decision, sentence, pools)
