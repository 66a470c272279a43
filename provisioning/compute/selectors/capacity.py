"""How much of a host may be allocated, as expressions of SQL: the claim, the scheduler's rows and resizes count alike.

What a host's aggregates say goes before its own.  A limit is a whole number, cut towards zero as Python's ``int()``
cuts, on every database.
"""

from typing import Any

from django.db.models import BigIntegerField, ExpressionWrapper, F, FloatField, Func
from django.db.models.functions import Coalesce

from provisioning.hosts.models import Host


class Whole(Func):
    """A number without what is behind its point."""

    arity = 1
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite's cast cuts."""
        return self.as_sql(compiler, connection, template="CAST(%(expressions)s AS INTEGER)", **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """PostgreSQL's cast rounds, so that it is cut before."""
        return self.as_sql(compiler, connection, template="TRUNC(%(expressions)s)::bigint", **extra)


def ratio(resource: str) -> Coalesce:
    """Return what a host's aggregates or it itself say for ``cpu``, ``ram`` or ``disk``."""
    return Coalesce(F(f"aggregate_{resource}_ratio"), F(f"{resource}_allocation_ratio"))


def _whole(total: Any, resource: str) -> Whole:
    return Whole(ExpressionWrapper(total * ratio(resource), output_field=FloatField()))


def vcpus_limit() -> Whole:
    """Return how many vCPUs may be allocated."""
    return _whole(F("vcpus_total"), "cpu")


def memory_limit() -> Whole:
    """Return how many MiB of memory may be allocated."""
    return _whole(F("memory_mb_total") - F("reserved_memory_mb"), "ram")


def disk_limit() -> Whole:
    """Return how many GiB of disk may be allocated."""
    return _whole(F("disk_gb_total") - F("reserved_disk_gb"), "disk")


def limits_of(host: Host) -> tuple[int, int, int]:
    """Return the same of one host: vCPUs, MiB, GiB."""
    cpu, ram, disk = (_said(host, resource) for resource in ("cpu", "ram", "disk"))
    return (
        int(host.vcpus_total * cpu),
        int((host.memory_mb_total - host.reserved_memory_mb) * ram),
        int((host.disk_gb_total - host.reserved_disk_gb) * disk),
    )


def _said(host: Host, resource: str) -> float:
    by_aggregates: float | None = getattr(host, f"aggregate_{resource}_ratio")
    own: float = getattr(host, f"{resource}_allocation_ratio")
    return own if by_aggregates is None else by_aggregates
