"""The query of a list of servers: filters by caller and microversion, ``sort_key`` and ``sort_dir`` (Compute API, "List
Servers").
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import QueryDict
from oslo_utils import strutils

from portal.api.compute.dialect import COUNT, TEXT, query, read_end, read_time
from portal.api.frame import Schema, Sorting, Version
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.lists.listing import Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.selectors.instance_lists import Filters, known_statuses
from provisioning.compute.selectors.instances import SORT_KEYS
from provisioning.network.addressing import usual_form

Query = Mapping[str, list[str]]

# fmt: off
_ALWAYS = (
    "access_ip_v4", "access_ip_v6", "all_tenants", "auto_disk_config", "availability_zone", "changes-since",
    "config_drive", "created_at", "deleted", "description", "display_description", "display_name", "flavor", "host",
    "hostname", "image", "image_ref", "ip", "ip6", "kernel_id", "key_name", "launch_index", "launched_at",
    "locked_by", "name", "node", "power_state", "progress", "project_id", "ramdisk_id", "reservation_id",
    "root_device_name", "soft_deleted", "sort_dir", "status", "task_state", "tenant_id", "terminated_at", "user_id",
    "uuid", "vm_state",
)
# fmt: on
_TAGS = ("tags", "tags-any", "not-tags", "not-tags-any")
_LATE: dict[Version, tuple[str, ...]] = {(2, 26): _TAGS, (2, 66): ("changes-before",), (2, 73): ("locked",)}
_EVERYBODY = frozenset({"reservation_id", "name", "status", "image", "flavor", "ip", "changes-since", "all_tenants"})
_EVERYBODY_LATE: dict[Version, tuple[str, ...]] = _LATE | {
    (2, 5): ("ip6",),
    (2, 83): (
        "availability_zone",
        "config_drive",
        "key_name",
        "created_at",
        "launched_at",
        "terminated_at",
        "power_state",
        "task_state",
        "vm_state",
        "progress",
        "user_id",
    ),
    (2, 90): ("hostname",),
}
_NEVER = frozenset(
    {"block_device_mapping", "extra", "info_cache", "metadata", "pci_devices", "services", "system_metadata"}
)
"""Names of Nova's columns that cannot be used as filters."""
_OTHER_STATUSES = frozenset({"MIGRATING", "REVERT_RESIZE", "UNKNOWN"})


def listing(version: Version) -> Schema:
    """The query of ``GET /servers`` and ``GET /servers/detail``."""
    parameters = dict.fromkeys(_ALWAYS, TEXT) | {"limit": COUNT, "marker": TEXT, "sort_key": sort_schema(version)}
    for since, names in _LATE.items():
        if version >= since:
            parameters |= dict.fromkeys(names, TEXT)
    return query(version, parameters)


class _NothingError(Exception):
    """No server can match the filters."""


@dataclass(frozen=True)
class ServerListRequest:
    """The requested list."""

    all_projects: bool = False
    filters: Filters = field(default_factory=Filters)
    nothing: bool = False
    """Whether it is known that no server matches."""


def read_filters(found: Query, version: Version, *, every: bool) -> ServerListRequest:
    """Read the filters of a validated query; ``every``: the caller may filter by every column.

    As the reference requires, filters that the caller may not use are ignored. Raises InvalidInputError and
    ForbiddenError.
    """
    last_values = {name: values[-1] for name, values in found.items() if values}
    if every:
        _check_filters(last_values)
    else:
        allowed = _EVERYBODY.union(*(names for since, names in _EVERYBODY_LATE.items() if version >= since))
        last_values = {name: value for name, value in last_values.items() if name in allowed}
    everywhere = "all_tenants" in last_values and (
        last_values["all_tenants"] == "" or _strict(last_values["all_tenants"])
    )
    if not everywhere:
        last_values.pop("tenant_id", None)
        last_values.pop("project_id", None)
    try:
        filters = _statuses(found, version, every=every)
        for name, value in last_values.items():
            if name in _READERS:
                column, read = _READERS[name]
                filters.setdefault(column, read(value, name))  # type: ignore[misc]
    except _NothingError:
        return ServerListRequest(everywhere, nothing=True)
    since, before = filters.get("changes_since"), filters.get("changes_before")
    if since and before and since > before:
        raise InvalidInputError(
            "The value of changes-since must be less than or equal to changes-before.", field="changes-since"
        )
    return ServerListRequest(everywhere, filters)


def _check_filters(values: Mapping[str, str]) -> None:
    for name in values:
        if name in _NEVER or name.startswith("_"):
            raise InvalidInputError(f"Invalid filter field: {name[:64]}.", field=name[:64])


def _statuses(found: Query, version: Version, *, every: bool) -> Filters:
    """Read ``status``, which may be repeated. If no value is a known status, the list is empty; from 2.38 on this is an
    error.
    """
    filters: Filters = {}
    words = [word.upper() for word in found.get("status", ())]
    if not words:
        return filters
    known = [word for word in words if word in known_statuses() | _OTHER_STATUSES]
    if not known:
        if version >= (2, 38):
            raise InvalidInputError("Invalid status value", field="status")
        raise _NothingError
    if set(known) == {"DELETED"}:
        if not every:
            raise ForbiddenError("Only administrators may list deleted instances")
        filters["deleted"] = True
    filters["status"] = known
    return filters


def _strict(value: str) -> bool:
    try:
        return bool(strutils.bool_from_string(value[:64], strict=True))
    except ValueError as error:
        raise InvalidInputError(str(error)) from error


def _text(value: str, _: str) -> str:
    return value


def _address(value: str, _: str) -> str:
    return usual_form(value)


def _reference(value: str, _: str) -> str:
    return value.rstrip("/").rsplit("/", 1)[-1]


def _id(value: str, _: str) -> Any:
    return read_id(value) or NOBODY


def _ids(value: str, name: str) -> list[Any]:
    return [_id(value, name)]


def _number(value: str, _: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= MAX_INTEGER):
        raise _NothingError
    return int(value)


def _truth(value: str, _: str) -> bool:
    try:
        return bool(value.strip()) and _strict(value)
    except InvalidInputError as error:
        raise _NothingError from error


def _lenient(value: str, _: str) -> bool:
    return bool(strutils.bool_from_string(value))


def _locked(value: str, _: str) -> bool:
    return _strict(value)


def _locked_by(value: str, _: str) -> bool:
    if value not in {"owner", "admin"}:
        raise _NothingError
    return True


def _disk_config(value: str, name: str) -> str:
    return "AUTO" if _truth(value, name) else "MANUAL"


def _second(value: str, name: str) -> datetime:
    try:
        return read_time(value, name)
    except InvalidInputError as error:
        raise _NothingError from error


def _root_device(value: str, _: str) -> None:
    if value.strip("^$") not in "/dev/vda":
        raise _NothingError


def _list(value: str, name: str) -> list[str]:
    tags = value.split(",")
    if len(tags) > 50:
        raise InvalidInputError(f"Invalid input for query parameters {name}. At most 50 tags.", field=name)
    if "\0" in value:
        raise InvalidInputError(f"Invalid input for query parameters {name}. No tag has a NUL in it.", field=name)
    return tags


_READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "access_ip_v4": ("access_ip_v4", _text),
    "access_ip_v6": ("access_ip_v6", _address),
    "auto_disk_config": ("disk_config", _disk_config),
    "availability_zone": ("availability_zone", _text),
    "changes-before": ("changes_before", read_end),
    "changes-since": ("changes_since", read_time),
    "config_drive": ("config_drive", _truth),
    "created_at": ("created_at", _second),
    "deleted": ("deleted", _lenient),
    "description": ("description", _text),
    "display_description": ("description", _text),
    "display_name": ("name", _text),
    "flavor": ("flavor_id", _reference),
    "host": ("host", _text),
    "hostname": ("hostname", _text),
    "image": ("image_id", _reference),
    "image_ref": ("image_id", _reference),
    "ip": ("ip", _text),
    "ip6": ("ip6", _address),
    "kernel_id": ("kernel_id", _text),
    "key_name": ("key_name", _text),
    "launch_index": ("launch_index", _number),
    "launched_at": ("launched_at", _second),
    "locked": ("locked", _locked),
    "locked_by": ("locked", _locked_by),
    "name": ("name", _text),
    "node": ("node", _text),
    "not-tags": ("not_tags", _list),
    "not-tags-any": ("not_tags_any", _list),
    "power_state": ("power_state", _number),
    "progress": ("progress", _number),
    "project_id": ("project_id", _id),
    "ramdisk_id": ("ramdisk_id", _text),
    "reservation_id": ("reservation_id", _text),
    "root_device_name": ("", _root_device),
    "soft_deleted": ("soft_deleted", _lenient),
    "tags": ("tags", _list),
    "tags-any": ("tags_any", _list),
    "task_state": ("task_state", _text),
    "tenant_id": ("project_id", _id),
    "terminated_at": ("terminated_at", _second),
    "user_id": ("user_id", _id),
    "uuid": ("ids", _ids),
    "vm_state": ("vm_state", _text),
}
"""Parameter → the selector's filter, and the function that reads its value."""


# fmt: off
_IGNORED = (
    "architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted",
    "deleted_at", "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on",
    "locked", "memory_mb", "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus",
    "vm_mode",
)
# fmt: on
"""Accepted and ignored, as in the API reference; ``locked`` is a sort key from 2.73 on."""
_KEYS = {key: key for key in sorted({*(SORT_KEYS.keys() - {"name", "id"}), "root_device_name", *_IGNORED})}
_OPERATORS_ONLY = ("host", "node")
_SORTING = Sorting(
    unknown_way="Unknown sort direction, must be 'desc' or 'asc'",
    mismatch="Sort direction size exceeds sort key size",
    without=("created_at",),
    way="desc",
    first_for_all=True,
)
"""The schema has checked the keys."""


def sort_schema(version: Version) -> Schema:
    """Return the schema of ``sort_key``."""
    return {"type": "string", "enum": [*_KEYS]}


def read_sort(params: QueryDict, version: Version, *, every: bool) -> list[Sort]:
    """Return the sort keys, by default newest first; ``every``: the caller may sort by every column.

    Raises InvalidInputError for an unknown direction, and ForbiddenError for a key reserved to operators.
    """
    found = _SORTING.read(params, _KEYS)
    for key in (sort.key for sort in found):
        if key in _OPERATORS_ONLY and not every:
            raise ForbiddenError(f"Only administrators can sort servers by {key}")
    ignored = {*_IGNORED, "root_device_name"} - ({"locked"} if version >= (2, 73) else set())
    return [sort for sort in found if sort.key not in ignored]
