"""The order of a list of servers, and the part of it behind a marker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, F, Q, QuerySet, TextField, Value, When
from django.db.models.expressions import OrderBy
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from provisioning.common.errors import InvalidInputError
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState

SORT_KEYS: dict[str, str] = {
    "access_ip_v4": "access_ip_v4",
    "access_ip_v6": "access_ip_v6",
    "auto_disk_config": "disk_config",
    "availability_zone": "host__availability_zone",
    "config_drive": "config_drive",
    "created_at": "created_at",
    "display_description": "description",
    "display_name": "name",
    "host": "host__name",
    "hostname": "hostname",
    "id": "id",
    "image_ref": "image_id",
    "instance_type_id": "_flavor",
    "kernel_id": "_kernel",
    "key_name": "key_name",
    "launch_index": "launch_index",
    "launched_at": "launched_at",
    "locked": "locked",
    "locked_by": "locked",
    "name": "name",
    "node": "host__hypervisor_hostname",
    "power_state": "power_state",
    "progress": "_progress",
    "project_id": "project_id",
    "ramdisk_id": "_ramdisk",
    "task_state": "task_state",
    "terminated_at": "terminated_at",
    "updated_at": "updated_at",
    "user_id": "user_id",
    "uuid": "id",
    "vm_state": "vm_state",
}
"""Keys a list may be sorted by, and their columns; those with an underscore are made."""
NEWEST_FIRST: tuple[tuple[str, str], ...] = (("created_at", "desc"),)
_MADE = {
    "_flavor": Cast(KeyTextTransform("flavorid", "flavor"), TextField()),
    "_kernel": Cast(KeyTextTransform("kernel_id", "image_properties"), TextField()),
    "_ramdisk": Cast(KeyTextTransform("ramdisk_id", "image_properties"), TextField()),
    "_progress": Case(When(vm_state=VmState.ACTIVE, then=Value(100)), default=Value(0)),
}
_MAY_BE_EMPTY = frozenset(
    {
        "_kernel",
        "_ramdisk",
        "description",
        "host__availability_zone",
        "host__hypervisor_hostname",
        "host__name",
        "image_id",
        "key_name",
        "launched_at",
        "task_state",
        "terminated_at",
    }
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the order."""

    name: str
    falling: bool

    def order(self) -> OrderBy | str:
        """Return Django's form; empty values stand last when rising and first when falling, on every database."""
        if self.name not in _MAY_BE_EMPTY:  # plain, so that an index serves
            return f"-{self.name}" if self.falling else self.name
        return F(self.name).desc(nulls_first=True) if self.falling else F(self.name).asc(nulls_last=True)

    def same(self, value: Any) -> Q:
        """Match the rows that have the value here."""
        return Q(**{f"{self.name}__isnull": True}) if value is None else Q(**{self.name: value})

    def further(self, value: Any) -> Q:
        """Match the rows that come after the value."""
        empty = Q(**{f"{self.name}__isnull": True})
        if value is None:
            return ~empty if self.falling else Q(pk__in=[])
        behind = Q(**{f"{self.name}__{'lt' if self.falling else 'gt'}": value})
        return behind | empty if self.name in _MAY_BE_EMPTY and not self.falling else behind


def page(
    rows: QuerySet[Instance], sort: Sequence[tuple[str, str]], limit: int | None, marker: Instance | None
) -> list[Instance]:
    """Sort, start behind ``marker``, cut; InvalidInputError for an unknown sort key."""
    columns = _columns(sort or NEWEST_FIRST)
    made = {column.name: _MADE[column.name] for column in columns if column.name in _MADE}
    rows = rows.annotate(**made).order_by(*(column.order() for column in columns))
    if marker is not None:
        names = [column.name for column in columns]
        values = Instance.objects.annotate(**made).filter(pk=marker.pk).values(*names).get()
        rows = rows.filter(_behind(columns, values))
    return list(rows[:limit] if limit is not None else rows)


def _columns(sort: Sequence[tuple[str, str]]) -> list[Column]:
    columns: dict[str, Column] = {}
    for key, direction in sort:
        if key not in SORT_KEYS:
            raise InvalidInputError(f"Sort key {key!r} is not supported.", field="sort_key")
        name = SORT_KEYS[key]
        columns.setdefault(name, Column(name, direction == "desc"))
    columns.setdefault("id", Column("id", list(columns.values())[-1].falling))
    return list(columns.values())


def _behind(columns: Sequence[Column], values: dict[str, Any]) -> Q:
    found, equal = Q(pk__in=[]), Q()
    for column in columns:
        found |= equal & column.further(values[column.name])
        equal &= column.same(values[column.name])
    first = columns[0]
    if first.name in _MAY_BE_EMPTY or len(columns) == 1:
        return found
    # What follows from the rest, said for the sake of the index: begin at the marker.
    return Q(**{f"{first.name}__{'lte' if first.falling else 'gte'}": values[first.name]}) & found
