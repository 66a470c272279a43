"""Numbers for the metrics of block storage, in a constant number of queries."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, F, OuterRef, Sum

from provisioning.hosts.selectors import alive
from provisioning.volumes.models import Attachment, Backup, DeletedData, PoolHost, Snapshot, StoragePool, Volume


@dataclass(frozen=True, slots=True)
class PoolGauge:
    """One pool, amounts in GiB; ``up``: one of its hosts has sent a recent heartbeat."""

    name: str
    driver: str
    zone: str
    key: str
    up: bool
    enabled: bool
    frozen: bool
    faulty: bool
    total: float
    free: float
    allocatable: float
    allocated: int


def pool_gauges(now: datetime) -> list[PoolGauge]:
    """Return all pools by name."""
    served = PoolHost.objects.filter(alive(now, "host__"), pool=OuterRef("pk"), serving=True)
    return [
        PoolGauge(
            name=pool.name,
            driver=pool.driver,
            zone=pool.availability_zone,
            key=str(pool.id),
            up=pool.is_alive,
            enabled=pool.enabled,
            frozen=pool.frozen,
            faulty=bool(pool.warning),
            total=pool.total_gb,
            free=pool.free_gb,
            allocatable=pool.total_gb * (1 - pool.reserved_percentage / 100) * pool.max_over_subscription_ratio,
            allocated=pool.allocated_gb,
        )
        for pool in StoragePool.objects.annotate(is_alive=Exists(served)).order_by("name", "id")
    ]


def volumes_by_status() -> dict[str, tuple[int, int]]:
    """Return status → the number of volumes and their total GiB."""
    rows = Volume.objects.order_by("status").values_list("status").annotate(many=Count("id"), gb=Sum("size_gb"))
    return {status: (many, gb) for status, many, gb in rows}


def snapshots_by_status() -> dict[str, int]:
    rows = Snapshot.objects.order_by("status").values_list("status").annotate(many=Count("id"))
    return dict(rows)


def attachments_by_status() -> dict[str, int]:
    rows = Attachment.objects.order_by("status").values_list("status").annotate(many=Count("id"))
    return dict(rows)


def backups_by_status() -> dict[str, tuple[int, int]]:
    """Return status → the number of backups and their stored bytes."""
    rows = Backup.objects.order_by("status").values_list("status").annotate(many=Count("id"), size=Sum("stored_bytes"))
    return {status: (many, size) for status, many, size in rows}


def by_project(pool: StoragePool) -> dict[uuid.UUID | None, int]:
    """Return project → GiB in a pool, the largest first; None: an unknown project."""
    rows = DeletedData.objects.filter(pool=pool, size_gb__gt=0).values_list("project_id")
    records = rows.annotate(gb=Sum("size_gb")).order_by("-gb", F("project_id").asc(nulls_last=True))
    return dict(records)


def of_project(project_id: uuid.UUID) -> int:
    """Return the GiB of deleted volumes' data of a project."""
    return DeletedData.objects.filter(project_id=project_id).aggregate(gb=Sum("size_gb"))["gb"] or 0
