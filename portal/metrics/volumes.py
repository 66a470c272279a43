"""The metrics of block storage."""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from provisioning.volumes.selectors import gauges

GIB = 1 << 30
POOL = ("pool", "driver", "zone", "id")


def block_storage(now: datetime) -> Iterator[Metric]:
    """Yield the capacity of pools, and the numbers of volumes, snapshots, attachments and backups."""
    yield from _pools(now)
    volumes = GaugeMetricFamily("novella_volumes", "Volumes.", labels=["status"])
    size = GaugeMetricFamily("novella_volume_bytes", "Total size of volumes.", labels=["status"])
    for status, (many, gigabytes) in gauges.volumes_by_status().items():
        volumes.add_metric([status], many)
        size.add_metric([status], gigabytes * GIB)
    backups = GaugeMetricFamily("novella_backups", "Backups.", labels=["status"])
    stored = GaugeMetricFamily("novella_backup_bytes", "Size of backups in their stores.", labels=["status"])
    for status, (many, taken) in gauges.backups_by_status().items():
        backups.add_metric([status], many)
        stored.add_metric([status], taken)
    yield from (volumes, size, backups, stored)
    for name, what, counted in (
        ("snapshots", "Snapshots of volumes.", gauges.snapshots_by_status()),
        ("attachments", "Attachments of volumes.", gauges.attachments_by_status()),
    ):
        family = GaugeMetricFamily(f"novella_volume_{name}", what, labels=["status"])
        for status, many in counted.items():
            family.add_metric([status], many)
        yield family


def _pools(now: datetime) -> Iterator[Metric]:
    rows = gauges.pool_gauges(now)
    numbers: dict[str, tuple[str, list[float]]] = {
        "up": ("Whether a host that serves the pool sent a heartbeat recently.", [row.up for row in rows]),
        "enabled": ("Whether the pool gets new volumes.", [row.enabled for row in rows]),
        "frozen": ("Whether volumes of the pool cannot be created, deleted or changed.", [row.frozen for row in rows]),
        "fault": ("Whether a host reports a problem of the pool.", [row.faulty for row in rows]),
        "bytes": ("Capacity of the pool.", [row.total * GIB for row in rows]),
        "free_bytes": ("Free capacity of the pool.", [row.free * GIB for row in rows]),
        "allocatable_bytes": ("Capacity that may be allocated to volumes.", [row.allocatable * GIB for row in rows]),
        "allocated_bytes": ("Capacity that is allocated to volumes.", [row.allocated * GIB for row in rows]),
    }
    for name, (what, values) in numbers.items():
        family = GaugeMetricFamily(f"novella_pool_{name}", what, labels=POOL)
        for row, value in zip(rows, values, strict=True):
            family.add_metric([row.name, row.driver, row.zone, row.key], value)
        yield family
