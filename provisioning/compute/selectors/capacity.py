"""Limits of the amounts that may be allocated on a host, as SQL expressions for claims, the scheduler and resizes.

The ratio of a host's aggregates overrides its own. A limit is an integer, truncated towards zero like Python's
``int()`` on every database.
"""

from typing import Any

from django.db.models import BigIntegerField, ExpressionWrapper, F, FloatField, Func
from django.db.models.functions import Coalesce

from provisioning.hosts.models import Host


class Whole(Func):
    """A number truncated to an integer."""

    arity = 1
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite's cast truncates."""
        return self.as_sql(compiler, connection, template="CAST(%(expressions)s AS INTEGER)", **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """PostgreSQL's cast rounds, so the number is truncated first."""
        return self.as_sql(compiler, connection, template="TRUNC(%(expressions)s)::bigint", **extra)


def ratio(resource: str) -> Coalesce:
    """Return the allocation ratio of ``cpu``, ``ram`` or ``disk``: of the host's aggregates, or its own."""
    return Coalesce(F(f"aggregate_{resource}_ratio"), F(f"{resource}_allocation_ratio"))


def _whole(total: Any, resource: str) -> Whole:
    return Whole(ExpressionWrapper(total * ratio(resource), output_field=FloatField()))


def vcpus_limit() -> Whole:
    """Return the number of vCPUs that may be allocated."""
    return _whole(F("vcpus_total"), "cpu")


def memory_limit() -> Whole:
    """Return the MiB of memory that may be allocated."""
    return _whole(F("memory_mb_total") - F("reserved_memory_mb"), "ram")


def disk_limit() -> Whole:
    """Return the GiB of disk that may be allocated."""
    return _whole(F("disk_gb_total") - F("reserved_disk_gb"), "disk")


def limits_of(host: Host) -> tuple[int, int, int]:
    """Return the limits of a host, computed in Python: vCPUs, MiB of memory, GiB of disk."""
    cpu, ram, disk = (_ratio(host, resource) for resource in ("cpu", "ram", "disk"))
    return (
        int(host.vcpus_total * cpu),
        int((host.memory_mb_total - host.reserved_memory_mb) * ram),
        int((host.disk_gb_total - host.reserved_disk_gb) * disk),
    )


def _ratio(host: Host, resource: str) -> float:
    by_aggregates: float | None = getattr(host, f"aggregate_{resource}_ratio")
    own: float = getattr(host, f"{resource}_allocation_ratio")
    return own if by_aggregates is None else by_aggregates
