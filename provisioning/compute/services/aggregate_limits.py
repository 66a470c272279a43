"""Limits in the metadata of aggregates, copied to columns of their hosts, so that claims and the scheduler read hosts
only.

If a host is in several aggregates the smallest number applies, as in Nova.
"""

import math
import uuid
from collections.abc import Mapping, Sequence

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.models import AggregateHost
from provisioning.hosts.models import Host

MOST_RATIO = 1000
RATIOS = {
    "cpu_allocation_ratio": "aggregate_cpu_ratio",
    "ram_allocation_ratio": "aggregate_ram_ratio",
    "disk_allocation_ratio": "aggregate_disk_ratio",
}
NUMBERS = {
    "max_instances_per_host": "aggregate_max_instances",
    "max_io_ops_per_host": "aggregate_max_io_ops",
}
COLUMNS = RATIOS | NUMBERS
"""Metadata key → column of the host."""
_BATCH = 500


def check_limits(metadata: Mapping[str, str | None]) -> None:
    """Raise InvalidInputError for an invalid value of a key in ``COLUMNS``."""
    for key, value in metadata.items():
        if key in COLUMNS and value is not None and number(key, value) is None:
            expected = (
                f"a number above 0, at most {MOST_RATIO}"
                if key in RATIOS
                else f"a whole number from 0 to {MAX_INTEGER}"
            )
            raise InvalidInputError(f"Invalid input for {key}: {str(value)[:64]!r} is not {expected}.", field=key)


def number(key: str, value: object) -> float | None:
    """Return the value of a key in ``COLUMNS`` as a number; None for an invalid value."""
    try:
        parsed = float(str(value))
    except ValueError:
        return None
    if not math.isfinite(parsed):
        return None
    if key in RATIOS:
        return parsed if 0 < parsed <= MOST_RATIO else None
    return parsed if parsed.is_integer() and 0 <= parsed <= MAX_INTEGER else None


def write_limits(host_ids: Sequence[uuid.UUID]) -> None:
    """Write to each of these hosts the limits of its aggregates, inside the caller's transaction.

    The hosts are locked in order of id, so that of two concurrent changes the second one reads the result of the first.
    """
    ordered = sorted(host_ids)
    for start in range(0, len(ordered), _BATCH):
        _write(ordered[start : start + _BATCH])


def _write(host_ids: list[uuid.UUID]) -> None:
    columns = tuple(COLUMNS.values())
    rows = Host.objects.filter(id__in=host_ids).select_for_update(no_key=True).order_by("id")
    current = {host_id: tuple(values) for host_id, *values in rows.values_list("id", *columns)}
    limits: dict[uuid.UUID, dict[str, float]] = {host_id: {} for host_id in current}
    members = AggregateHost.objects.filter(host__in=host_ids)
    for host_id, metadata in members.values_list("host_id", "aggregate__metadata"):
        for key, column in COLUMNS.items():
            value = number(key, metadata[key]) if key in metadata else None
            if value is not None and host_id in limits:
                limits[host_id][column] = min(value, limits[host_id].get(column, value))
    changed: dict[tuple[float | None, ...], list[uuid.UUID]] = {}
    for host_id, values in limits.items():
        requested = tuple(values.get(column) for column in columns)
        if requested != current[host_id]:
            changed.setdefault(requested, []).append(host_id)
    for requested, ids in changed.items():
        Host.objects.filter(id__in=ids).update(**dict(zip(columns, requested, strict=True)))
