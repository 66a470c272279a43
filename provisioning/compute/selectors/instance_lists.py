"""Filters and sort keys of lists of servers."""

import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

import re2
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import NOTHING, Filter, Listing, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.common.values.patterns import as_in_postgresql
from provisioning.compute.models import Instance, InstanceTag
from provisioning.compute.states import STATUSES, VmState
from provisioning.network.models import FixedIP

LONGEST = 255
"""Maximum number of characters of a pattern, as of a name."""
MOST_REPETITIONS = 2

_PLAIN = re.compile(r"(\^?)([^\\^$.|?*+()\[\]{}]*)(\$?)")
_PIECE = re.compile(
    r"""
    \\[dDwWsS] | \\[^0-9a-zA-Z]              # a kind of character, or one taken literally
    | \[\^?\]?(?:[^\]\[\\]|\\[^0-9a-zA-Z])*\]   # a set
    | (?P<repeat>[*+?]|\{\d{1,2}(?:,\d{0,2})?\})
    | (?P<group>\((?!\?)|\))
    | (?P<edge>[\^$|])
    | [^\\\[\](){}*+?^$|]
    """,
    re.VERBOSE,
)


class Filters(TypedDict, total=False):
    """Filters of a list; absent and None are equivalent. A pattern is a substring, or a regular expression within the
    limits of ``checked``.
    """

    name: str | None
    """A pattern, as are ``hostname``, ``description``, ``key_name``, ``node``, ``reservation_id``,
    ``availability_zone``, ``access_ip_v4``, ``access_ip_v6``, ``kernel_id`` and ``ramdisk_id``.
    """
    status: str | Sequence[str] | None
    """Statuses of the API."""
    vm_state: str | None
    task_state: str | None
    image_id: str | None
    flavor_id: str | None
    """A flavor's id as in ``flavorRef``."""
    host: str | None
    """Name of a host. Like ``node``, ``project_id`` and ``deleted`` it is ignored unless the caller is an operator."""
    node: str | None
    availability_zone: str | None
    """Availability zone of its host; the requested zone for a server without a host."""
    user_id: uuid.UUID | None
    project_id: uuid.UUID | None
    reservation_id: str | None
    ids: Iterable[uuid.UUID] | None
    changes_before: datetime | None
    """Servers whose last change was not after then, including deleted ones."""
    changes_since: datetime | None
    """Servers that have changed since then, including deleted ones."""
    deleted: bool | None
    """True: only deleted servers; None: deleted servers only with ``changes_…``."""
    soft_deleted: bool | None
    """Whether soft-deleted servers are included; for operators."""
    ip: str | None
    """A pattern for IPv4 addresses, ``ip6`` for IPv6 addresses."""
    ip6: str | None
    hostname: str | None
    description: str | None
    key_name: str | None
    config_drive: bool | None
    power_state: int | None
    progress: int | None
    locked: bool | None
    launch_index: int | None
    disk_config: str | None
    access_ip_v4: str | None
    access_ip_v6: str | None
    kernel_id: str | None
    ramdisk_id: str | None
    created_at: datetime | None
    """Servers with a time in the same second; the same applies to ``launched_at`` and ``terminated_at``."""
    launched_at: datetime | None
    terminated_at: datetime | None
    tags: Sequence[str] | None
    """Servers with all tags; ``tags_any`` with any of them; ``not_tags`` and ``not_tags_any`` exclude the servers that
    ``tags`` and ``tags_any`` would return.
    """
    tags_any: Sequence[str] | None
    not_tags: Sequence[str] | None
    not_tags_any: Sequence[str] | None


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
"""Sort key → column; columns with an underscore are computed."""
OPERATORS_ONLY = frozenset({"host", "node", "project_id", "deleted", "soft_deleted"})


def narrowed(rows: QuerySet[Instance], specified: Filters, *, operator: bool) -> QuerySet[Instance]:
    """Apply the filters. Raises InvalidInputError for a pattern outside the limits."""
    filters: dict[str, Any] = {
        name: value
        for name, value in specified.items()
        if value is not None and (operator or name not in OPERATORS_ONLY)
    }
    not_columns = {"deleted", "soft_deleted"}
    return INSTANCES.narrowed(
        _kept(rows, filters), ((name, value) for name, value in filters.items() if name not in not_columns)
    )


def _kept(rows: QuerySet[Instance], filters: dict[str, Any]) -> QuerySet[Instance]:
    """Exclude deleted servers, unless the filters request deleted servers or changes: a deletion is a change."""
    deleted, soft = filters.get("deleted"), filters.get("soft_deleted")
    if deleted:
        gone = Q(vm_state=VmState.DELETED)
        return rows.filter(gone if soft is False else gone | Q(vm_state=VmState.SOFT_DELETED))
    if deleted is None and not filters.keys().isdisjoint({"changes_since", "changes_before"}):
        return rows
    rows = rows.filter(deleted_at=None).exclude(vm_state=VmState.DELETED)
    return rows if soft or "SOFT_DELETED" in _values(filters.get("status")) else rows.exclude(vm_state="soft-delete")


def _values(value: str | Sequence[str] | None) -> list[str]:
    return [] if value is None else [word.upper() for word in ([value] if isinstance(value, str) else value)]


def known_statuses() -> frozenset[str]:
    """Return all values of the API's ``status``."""
    return frozenset(usual for usual, _ in STATUSES.values()).union(*(each.values() for _, each in STATUSES.values()))


def _has_status(value: str | Sequence[str]) -> Q:
    """Match the states with these statuses; an unknown status matches nothing."""
    result = NOTHING
    for word in _values(value):
        for vm_state, (usual, during) in STATUSES.items():
            others = [task for task, status in during.items() if status != word]
            if usual == word:
                idle_or_else = Q(task_state=None) | ~Q(task_state__in=others)
                result |= Q(vm_state=vm_state) & idle_or_else if others else Q(vm_state=vm_state)
            else:
                tasks = [task for task, status in during.items() if status == word]
                result |= Q(vm_state=vm_state, task_state__in=tasks) if tasks else NOTHING
    return result


def _image(value: str) -> Q:
    return Q(image_id=read_id(value) or NOBODY)


def _zone(value: str) -> Q:
    requested = matching("availability_zone", value, "availability_zone")
    return matching("host__availability_zone", value, "availability_zone") | (Q(host=None) & requested)


def _address(value: str, version: int, field: str) -> Q:
    rows = FixedIP.objects.filter(matching("address", value, field), subnet__ip_version=version)
    return Q(id__in=rows.exclude(port__device_id=None).values("port__device_id"))


def _second(column: str) -> Filter:
    def condition(moment: datetime) -> Q:
        start = moment.replace(microsecond=0)
        try:
            return Q(**{f"{column}__gte": start, f"{column}__lt": start + timedelta(seconds=1)})
        except OverflowError:
            return NOTHING

    return condition


def _pattern(column: str, name: str) -> Filter:
    return lambda value: matching(column, value, name)


def _progress(value: int) -> Q:
    active = Q(vm_state=VmState.ACTIVE)
    return {100: active, 0: ~active}.get(value, NOTHING)


def _any(tags: Sequence[str]) -> Q:
    return Q(Exists(InstanceTag.objects.filter(instance=OuterRef("pk"), tag__in=list(tags))))


def _every(tags: Sequence[str]) -> Q:
    result = Q()
    for tag in tags:
        result &= Q(Exists(InstanceTag.objects.filter(instance=OuterRef("pk"), tag=tag)))
    return result


_PATTERNS = {
    "node": "host__hypervisor_hostname",
    "kernel_id": "image_properties__kernel_id",
    "ramdisk_id": "image_properties__ramdisk_id",
} | {
    name: name
    for name in ("name", "hostname", "description", "key_name", "reservation_id", "access_ip_v4", "access_ip_v6")
}
SEARCHED = frozenset({*_PATTERNS, "availability_zone", "ip", "ip6"})
"""Filters with patterns, for which there are no indexes."""
INSTANCES = Listing[Instance](
    order=(Sort("created_at"), Sort("id")),
    filters={
        **{name: _pattern(column, name) for name, column in _PATTERNS.items()},
        **{column: _second(column) for column in ("created_at", "launched_at", "terminated_at")},
        "status": _has_status,
        "image_id": _image,
        "flavor_id": "flavor__flavorid",
        "ids": "id__in",
        "host": "host__name",
        "availability_zone": _zone,
        "ip": lambda value: _address(value, 4, "ip"),
        "ip6": lambda value: _address(value, 6, "ip6"),
        "progress": _progress,
        "changes_before": "updated_at__lte",
        "changes_since": "updated_at__gte",
        "tags": _every,
        "tags_any": _any,
        "not_tags": lambda tags: ~_every(tags),
        "not_tags_any": lambda tags: ~_any(tags),
    },
    sort_keys=SORT_KEYS,
    made={
        "_flavor": Cast(KeyTextTransform("flavorid", "flavor"), TextField()),
        "_kernel": Cast(KeyTextTransform("kernel_id", "image_properties"), TextField()),
        "_ramdisk": Cast(KeyTextTransform("ramdisk_id", "image_properties"), TextField()),
        "_progress": Case(When(vm_state=VmState.ACTIVE, then=Value(100)), default=Value(0)),
    },
    no_marker="marker [{marker}] not found",
)
"""Lists of servers. A filter without an entry is compared with the column of the same name."""


def matching(column: str, pattern: str, field: str) -> Q:
    """Match rows whose column contains the pattern. Raises InvalidInputError (``field``) for a disallowed pattern."""
    plain = _PLAIN.fullmatch(pattern)
    if plain is None:
        return Q(**{f"{column}__iregex": checked(pattern, field)})
    begins, text, ends = plain.groups()
    lookup = {(True, True): "iexact", (True, False): "istartswith", (False, True): "iendswith"}.get(
        (bool(begins), bool(ends)), "icontains"
    )
    return Q(**{f"{column}__{lookup}": text})


def checked(pattern: str, field: str) -> str:
    """Return an equivalent pattern for all databases. Raises InvalidInputError (``field``) for a disallowed pattern."""
    if "\0" in pattern or len(pattern) > LONGEST:
        raise _invalid(pattern, field)
    text = re.sub(r"(?<!\\)\.\*\$?$", "", re.sub(r"^\^?\.\*", "", pattern)) if "|" not in pattern else pattern
    at, repetitions, before = 0, 0, "edge"
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise _invalid(pattern, field)
        if piece["repeat"]:
            repetitions += 1
            if before != "one" or repetitions > MOST_REPETITIONS:
                raise _invalid(pattern, field)
        before = piece.lastgroup or "one"
        at = piece.end()
    try:
        as_in_postgresql(f"(?i){text}")
    except re2.error as error:
        raise _invalid(pattern, field) from error
    return text


def _invalid(pattern: str, field: str) -> InvalidInputError:
    return InvalidInputError(
        f"Invalid input for query parameters {field}. Value: {pattern[:64]}. It is not a supported pattern:"
        f" at most {LONGEST} characters and {MOST_REPETITIONS} repetitions, none of a group.",
        field=field,
    )
