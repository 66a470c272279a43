"""Host aggregates; the hosts of an aggregate with an availability zone are in that zone.

Lock order: the aggregate, then its hosts by id. Servers are also placed under the lock of their host, so that a change
of zone sees them.
"""

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, NovellaError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute import notifications
from provisioning.compute.models import Aggregate, AggregateHost
from provisioning.compute.records.names import check_text
from provisioning.compute.services.hosts import check_zone, has_servers
from provisioning.hosts.models import DEFAULT_ZONE, Host
from provisioning.identity import policy

ZONE = "availability_zone"

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


@when_broken_off
def create_aggregate(context: RequestContext, name: str, availability_zone: str | None = None) -> Aggregate:
    """Create an aggregate without hosts. Raises ForbiddenError, InvalidInputError, ConflictError for a name in use."""
    policy.enforce(context, "os_compute_api:os-aggregates:create")
    text, zone = check_text(name, "name", shortest=1), _zone(availability_zone)
    try:
        with transaction.atomic():
            made = Aggregate.objects.create(name=text, availability_zone=zone)
            notifications.of_aggregate(made, "create")
            return made
    except IntegrityError as error:
        raise ConflictError(f"Aggregate {text} already exists.", field="name") from error


@when_broken_off
def update_aggregate(context: RequestContext, aggregate_id: int, values: Mapping[str, str | None]) -> Aggregate:
    """Change ``name``, ``availability_zone`` (None removes it) or both.

    Raises ForbiddenError, NotFoundError, InvalidInputError (also when hosts cannot change their zone), and
    ConflictError for a name in use.
    """
    policy.enforce(context, "os_compute_api:os-aggregates:update")
    columns: dict[str, Any] = {}
    if "name" in values:
        columns["name"] = check_text(values["name"] or "", "name", shortest=1)
    try:
        with transaction.atomic():
            aggregate = _held(aggregate_id)
            if ZONE in values:
                _change_zone(aggregate, _zone(values[ZONE]))
            saved = _saved(aggregate, columns)
            notifications.of_aggregate(saved, "update_prop")
            return saved
    except IntegrityError as error:
        raise ConflictError(f"Aggregate {columns.get('name')} already exists.", field="name") from error


@when_broken_off
def set_aggregate_metadata(context: RequestContext, aggregate_id: int, metadata: Mapping[str, str | None]) -> Aggregate:
    """Set these items and keep all others; None removes one. ``availability_zone`` is the aggregate's zone.

    Allocation ratios and limits (``COLUMNS``) apply to the hosts immediately. Raises ForbiddenError,
    NotFoundError, and InvalidInputError, also for an invalid limit and when hosts cannot change their zone.
    """
    policy.enforce(context, "os_compute_api:os-aggregates:set_metadata")
    check_limits(metadata)
    with transaction.atomic():
        aggregate = _held(aggregate_id)
        if ZONE in metadata:
            _change_zone(aggregate, _zone(metadata[ZONE]))
        changed = {key: value for key, value in metadata.items() if key != ZONE}
        kept = {key: value for key, value in (aggregate.metadata | changed).items() if value is not None}
        saved = _saved(aggregate, {"metadata": kept})
        notifications.of_aggregate(saved, "update_metadata")
        if COLUMNS.keys() & metadata.keys():
            write_limits(list(aggregate.hosts.values_list("id", flat=True)))
        return saved


@when_broken_off
def delete_aggregate(context: RequestContext, aggregate_id: int) -> None:
    """Delete an aggregate without hosts. Raises ForbiddenError, NotFoundError, InvalidInputError when it has hosts."""
    policy.enforce(context, "os_compute_api:os-aggregates:delete")
    with transaction.atomic():
        aggregate = _held(aggregate_id)
        if AggregateHost.objects.filter(aggregate=aggregate).exists():
            raise InvalidInputError(
                f"Cannot delete aggregate {aggregate_id}. Reason: Host aggregate is not empty; remove its hosts first."
            )
        notifications.of_aggregate(aggregate, "delete")
        aggregate.delete()


@when_broken_off
def add_host(context: RequestContext, aggregate_id: int, host_name: str) -> Aggregate:
    """Add a host to an aggregate; the host moves to the aggregate's availability zone, if it has one.

    Raises ForbiddenError, NotFoundError, and ConflictError when the host is already a member, another of its aggregates
    is in another zone, or its servers would change their zone.
    """
    policy.enforce(context, "os_compute_api:os-aggregates:add_host")
    with transaction.atomic():
        aggregate, host = _held(aggregate_id), _held_host(host_name)
        if AggregateHost.objects.filter(aggregate=aggregate, host=host).exists():
            raise ConflictError(f"Aggregate {aggregate_id} already has host {host_name}.", field="host")
        AggregateHost.objects.create(aggregate=aggregate, host=host)
        if aggregate.availability_zone:
            where = f"Cannot add host to aggregate {aggregate_id}."
            _check_zone([host], aggregate, ConflictError, where)
            _move([host], where, ConflictError)
        write_limits([host.id])
        notifications.of_aggregate(aggregate, "add_host")
        return Aggregate.objects.get(pk=aggregate.pk)


@when_broken_off
def remove_host(context: RequestContext, aggregate_id: int, host_name: str) -> Aggregate:
    """Remove a host from an aggregate; if its other aggregates have no zone, the host returns to the default zone.

    Raises ForbiddenError, NotFoundError, and ConflictError when the host has servers that would change their zone.
    """
    policy.enforce(context, "os_compute_api:os-aggregates:remove_host")
    with transaction.atomic():
        aggregate, host = _held(aggregate_id), _held_host(host_name)
        if not AggregateHost.objects.filter(aggregate=aggregate, host=host).delete()[0]:
            raise NotFoundError(f"Cannot remove host {host_name} in aggregate {aggregate_id}", field="host")
        if aggregate.availability_zone:
            _move([host], f"Cannot remove host from aggregate {aggregate_id}.", ConflictError)
        write_limits([host.id])
        notifications.of_aggregate(aggregate, "remove_host")
        return Aggregate.objects.get(pk=aggregate.pk)


# ----- zones ----------------------------------------------------------------------------------------------------------


def _zone(value: str | None) -> str:
    """Return the validated name of a zone, empty for None."""
    return "" if value is None else check_zone(value)


def _change_zone(aggregate: Aggregate, zone: str) -> None:
    """Change the zone of the aggregate and its hosts."""
    if zone == aggregate.availability_zone:
        return
    where = f"Cannot update aggregate {aggregate.pk}."
    members = aggregate.hosts.select_for_update(no_key=True, of=("self",)).order_by("id")
    hosts = list(members)
    aggregate.availability_zone = zone
    if zone:
        _check_zone(hosts, aggregate, InvalidInputError, where)
    Aggregate.objects.filter(pk=aggregate.pk).update(availability_zone=zone)
    _move(hosts, where, InvalidInputError)


def _check_zone(hosts: Iterable[Host], aggregate: Aggregate, error: type[NovellaError], where: str) -> None:
    """Raise ``error`` if a host would be in two availability zones."""
    others = Aggregate.objects.filter(hosts__in=list(hosts)).exclude(pk=aggregate.pk)
    elsewhere = others.exclude(availability_zone__in=["", aggregate.availability_zone])
    named = sorted(set(elsewhere.values_list(ZONE, flat=True)))
    if named:
        raise error(f"{where} Reason: One or more hosts already in availability zone(s) {', '.join(named)}.")


def _move(hosts: Iterable[Host], where: str, error: type[NovellaError]) -> None:
    """Write the zones of these locked hosts. Raises ``error`` if the zone of a host with servers would change."""
    zones = _zones_of([host.id for host in hosts])
    moving = [host for host in hosts if zones.get(host.id, DEFAULT_ZONE) != host.availability_zone]
    if has_servers([host.id for host in moving]):
        raise error(f"{where} Reason: One or more hosts have servers, which would change their availability zone.")
    for host in moving:
        Host.objects.filter(id=host.id).update(availability_zone=zones.get(host.id, DEFAULT_ZONE))


def _zones_of(host_ids: list[uuid.UUID]) -> dict[uuid.UUID, str]:
    rows = AggregateHost.objects.filter(host__in=host_ids).exclude(aggregate__availability_zone="")
    return dict(rows.values_list("host_id", "aggregate__availability_zone"))


# ----- rows -----------------------------------------------------------------------------------------------------------


def _held(aggregate_id: int) -> Aggregate:
    """Lock and return the aggregate. Raises NotFoundError."""
    rows = Aggregate.objects.select_for_update(no_key=True).filter(pk=aggregate_id)
    aggregate = rows.first() if 0 < aggregate_id <= MAX_INTEGER else None
    if aggregate is None:
        raise NotFoundError(f"Aggregate {aggregate_id} could not be found.")
    return aggregate


def _held_host(name: str) -> Host:
    host = Host.objects.select_for_update(no_key=True).filter(name=name).first()
    if host is None:
        raise NotFoundError(f"Compute host {name[:64]} could not be found.", field="host")
    return host


def _saved(aggregate: Aggregate, columns: Mapping[str, Any]) -> Aggregate:
    Aggregate.objects.filter(pk=aggregate.pk).update(**columns, updated_at=timezone.now())
    return Aggregate.objects.get(pk=aggregate.pk)


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
