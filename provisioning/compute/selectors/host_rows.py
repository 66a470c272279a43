"""Hosts as rows for the scheduler, read with one statement, and the additional facts that a decision needs.

Every decision reads up to ten thousand hosts. So no model instances are created, ids keep the driver's type, and the
database calculates the sums.
"""

import gc
import json
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from django.db import connection
from django.db.models import Case, Count, DateTimeField, QuerySet, UUIDField, Value, When
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.compute.models import Aggregate, AggregateHost, Instance
from provisioning.compute.selectors.hosts import disk_limit, memory_limit, vcpus_limit
from provisioning.compute.states import DISK_TASKS
from provisioning.hosts.models import CachedImage, Host
from provisioning.hosts.selectors import long_ago, seen_since
from provisioning.scheduler import Facts, HostState, Options, RequestSpec, facts_needed
from provisioning.scheduler.spec import NO_FACTS, RawId

_COLUMNS = (
    "id", "name", "availability_zone", "is_enabled", "is_alive", "vcpus_total", "vcpus_limit", "memory_limit",
    "disk_limit", "vcpus_allocated", "memory_mb_allocated", "disk_gb_allocated", "instances_allocated", "failed_builds",
    "aggregate_max_instances", "aggregate_max_io_ops",
)  # fmt: skip
_HARDWARE = ("architecture", "hypervisor_type", "hypervisor_version")
"""Columns that are read only with the fact ``hardware``; in ``HostState`` they follow ``_COLUMNS``."""
_UNREAD = ("", "", 0)


def hosts_for(spec: RequestSpec, options: Options) -> list[HostState]:
    """Return all hosts with their current records, and the facts that a decision on this request needs."""
    return host_states(facts_needed(spec, options), image_id=spec.image_id)


def host_states(
    facts: Collection[str] = (), *, image_id: uuid.UUID | None = None, only: uuid.UUID | None = None
) -> list[HostState]:
    """Return all hosts, or only the host ``only``, with their current records.

    ``facts`` are the names of ``Facts`` to read; each costs one or two statements. ``image_id`` is the image for the
    fact ``with_image``. Architecture and hypervisor are read with ``hardware``.
    """
    hardware = "hardware" in facts
    rest = (*(() if hardware else _UNREAD), _facts(facts, image_id) if facts else NO_FACTS)
    columns = _COLUMNS + _HARDWARE if hardware else _COLUMNS
    make = tuple.__new__
    with collecting_later():
        return [make(HostState, row + rest) for row in _host_rows(columns, only)]


@contextmanager
def collecting_later() -> Iterator[None]:
    """Disable garbage collection while many rows are created, which saves a tenth of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _host_rows(columns: tuple[str, ...], only: uuid.UUID | None) -> list[tuple[Any, ...]]:
    values = {"since": long_ago(timezone.now())} | ({} if only is None else {"only": only})
    return _read(columns, one=only is not None).raw(**values)


@cache
def _read(columns: tuple[str, ...], *, one: bool = False) -> Prepared[Any]:
    """Return the query of all hosts, or of one."""
    if not one:
        return Prepared(lambda since: _query(since).values_list(*columns), since=DateTimeField())
    return Prepared(
        lambda since, only: _query(since).filter(id=only).values_list(*columns), since=DateTimeField(), only=UUIDField()
    )


def _query(since: Value) -> QuerySet[Any, Any]:
    return Host.objects.order_by().annotate(
        is_enabled=Case(When(enabled=True, then=Value(value=1)), default=Value(value=0)),
        is_alive=Case(When(seen_since(since), then=Value(value=True)), default=Value(value=False)),
        vcpus_limit=vcpus_limit(),
        memory_limit=memory_limit(),
        disk_limit=disk_limit(),
    )


def _raw(query: QuerySet[Any, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query with the driver's types."""
    sql, params = query.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


# ----- facts ----------------------------------------------------------------------------------------------------------


def _facts(requested: Collection[str], image_id: uuid.UUID | None) -> Facts:
    return Facts(
        io_ops=_io_ops() if "io_ops" in requested else {},
        with_image=_with_image(image_id) if "with_image" in requested and image_id else frozenset(),
        aggregate_metadata=_aggregate_metadata() if "aggregate_metadata" in requested else {},
        cpu_info=_cpu_info() if "cpu_info" in requested else {},
        traits=_traits() if "traits" in requested else {},
    )


def _io_ops() -> dict[RawId, int]:
    """Return host → number of its servers with a task of ``DISK_TASKS``; uses the index of servers with tasks."""
    return dict(_BUSY.raw())


_BUSY = Prepared(
    lambda: (
        Instance.objects.filter(task_state__isnull=False, task_state__in=DISK_TASKS, host__isnull=False)
        .order_by()
        .values_list("host_id")
        .annotate(many=Count("*"))
    )
)


def _with_image(image_id: uuid.UUID) -> frozenset[RawId]:
    return frozenset(chain.from_iterable(_HAVING.raw(image_id=image_id)))


_HAVING = Prepared(
    lambda image_id: CachedImage.objects.filter(image_id=image_id).values_list("host_id"), image_id=UUIDField()
)


def _aggregate_metadata() -> dict[RawId, Mapping[str, frozenset[str]]]:
    """Return host → key → values of all its aggregates; hosts with the same aggregates share one mapping."""
    metadata: dict[int, dict[str, str]] = dict(Aggregate.objects.values_list("id", "metadata"))
    aggregates: dict[RawId, tuple[int, ...]] = {}
    for host_id, aggregate_id in _raw(
        AggregateHost.objects.order_by("aggregate_id").values_list("host_id", "aggregate_id")
    ):
        aggregates[host_id] = (*aggregates.get(host_id, ()), aggregate_id)
    merged: dict[tuple[int, ...], Mapping[str, frozenset[str]]] = {}
    for ids in aggregates.values():
        if ids not in merged:
            merged[ids] = _merged([metadata.get(aggregate_id, {}) for aggregate_id in ids])
    return {host_id: merged[ids] for host_id, ids in aggregates.items()}


def _merged(metadata: list[dict[str, str]]) -> dict[str, frozenset[str]]:
    merged: dict[str, frozenset[str]] = {}
    for items in metadata:
        for key, value in items.items():
            merged[key] = merged.get(key, frozenset()) | {value}
    return merged


class _Lazily(Mapping[RawId, Mapping[str, str]]):
    """Host → processor information of its agent; the JSON is decoded on access."""

    def __init__(self, texts: dict[RawId, str]) -> None:
        self._texts = texts

    def __getitem__(self, raw_id: RawId) -> Mapping[str, str]:
        return _decoded(self._texts[raw_id])

    def __iter__(self) -> Iterator[RawId]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@lru_cache(maxsize=256)
def _decoded(text: str) -> Mapping[str, str]:
    """Decode JSON with a cache, because many hosts have the same processors."""
    decoded = json.loads(text)
    return decoded if isinstance(decoded, dict) else {}


def _cpu_info() -> _Lazily:
    return _Lazily(dict(_raw(Host.objects.order_by().values_list("id", "cpu_info"))))


def _traits() -> dict[RawId, frozenset[str]]:
    """Return host → its reported and custom traits."""
    rows = _raw(Host.objects.order_by().values_list("id", "traits", "custom_traits"))
    return {host_id: _names(reported) | _names(custom) for host_id, reported, custom in rows}


@lru_cache(maxsize=256)
def _names(text: str) -> frozenset[str]:
    return frozenset(map(str, json.loads(text)))
