"""The query of a list of servers: filters by caller and microversion, ``sort_key`` and ``sort_dir`` (Compute API, "List
Servers").
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from django.http import QueryDict
from oslo_utils import strutils

from portal.api.compute.dialect import COUNT, TEXT, query, read_end, read_time
from portal.api.frame import NEWEST, Filter, Filtering, Schema, Sorting, Version, identity, schemas_of
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.lists.listing import Sort
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.selectors.instance_lists import Filters, known_statuses
from provisioning.compute.selectors.instances import SORT_KEYS
from provisioning.network.addressing import usual_form

Query = Mapping[str, list[str]]

_NEVER = frozenset(
    {"block_device_mapping", "extra", "info_cache", "metadata", "pci_devices", "services", "system_metadata"}
)
"""Names of Nova's columns that cannot be used as filters."""
_OTHER_STATUSES = frozenset({"MIGRATING", "REVERT_RESIZE", "UNKNOWN"})


class _NothingError(Exception):
    """No server can match the filters."""


@dataclass(frozen=True)
class ServerListRequest:
    """The filters of a list of servers, without those that the caller may not use."""

    all_projects: bool = False
    filters: Filters = field(default_factory=Filters)
    nothing: bool = False
    """Whether it is known that no server matches."""


def read_filters(found: Query, version: Version, *, every: bool) -> ServerListRequest:
    """Read the filters of a validated query; ``every``: the caller may filter by every column.

    As the reference requires, filters that the caller may not use are ignored. Raises InvalidInputError and
    ForbiddenError.
    """
    if every:
        _check_filters(found)
    everywhere = "all_tenants" in found and (found["all_tenants"][-1] == "" or _strict(found["all_tenants"][-1]))
    own = () if everywhere else ("tenant_id", "project_id")
    parameters = [(name, values) for name, values in found.items() if name not in own]
    try:
        filters = _statuses(found, version, every=every)
        known_at = NEWEST if every else version
        for each, value in FILTERING.read(parameters, FILTERS, known_at, operator=every):
            filters.setdefault(each.lookup, value)  # type: ignore[misc]
    except _NothingError:
        return ServerListRequest(everywhere, nothing=True)
    since, before = filters.get("changes_since"), filters.get("changes_before")
    if since and before and since > before:
        raise InvalidInputError(
            "The value of changes-since must be less than or equal to changes-before.", field="changes-since"
        )
    return ServerListRequest(everywhere, filters)


def _check_filters(names: Iterable[str]) -> None:
    for name in names:
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


def _reference(value: str) -> str:
    return value.rstrip("/").rsplit("/", 1)[-1]


def _ids(value: str) -> list[object]:
    return [identity(value)]


def _number(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= MAX_INTEGER):
        raise _NothingError
    return int(value)


def _truth(value: str) -> bool:
    try:
        return bool(value.strip()) and _strict(value)
    except InvalidInputError as error:
        raise _NothingError from error


def _lenient(value: str) -> bool:
    return bool(strutils.bool_from_string(value))


def _locked_by(value: str) -> bool:
    if value not in {"owner", "admin"}:
        raise _NothingError
    return True


def _disk_config(value: str) -> str:
    return "AUTO" if _truth(value) else "MANUAL"


def _second(value: str) -> datetime:
    try:
        return read_time(value, "")
    except InvalidInputError as error:
        raise _NothingError from error


def _root_device(value: str) -> None:
    if value.strip("^$") not in "/dev/vda":
        raise _NothingError


def _tags(value: str, name: str) -> list[str]:
    tags = value.split(",")
    if len(tags) > 50:
        raise InvalidInputError(f"Invalid input for query parameters {name}. At most 50 tags.", field=name)
    if "\0" in value:
        raise InvalidInputError(
            f"Invalid input for query parameters {name}. A tag must not contain a NUL character.", field=name
        )
    return tags


_NAMED, _OPEN, _TAGGED, _UNTIL, _LOCKED = (2, 90), (2, 83), (2, 26), (2, 66), (2, 73)
"""The first versions in which all callers may filter by host names, by most attributes, by tags, by the end of a time
span, and by locks.
"""
_FOR_OPERATORS = (
    Filter("access_ip_v4"),
    Filter("access_ip_v6", read=usual_form),
    Filter("auto_disk_config", "disk_config", _disk_config),
    Filter("deleted", read=_lenient),
    Filter("description"),
    Filter("display_description", "description"),
    Filter("display_name", "name"),
    Filter("host"),
    Filter("image_ref", "image_id", _reference),
    Filter("kernel_id"),
    Filter("launch_index", read=_number),
    Filter("locked_by", "locked", _locked_by),
    Filter("node"),
    Filter("project_id", read=identity),
    Filter("ramdisk_id"),
    Filter("root_device_name", "", _root_device),
    Filter("soft_deleted", read=_lenient),
    Filter("tenant_id", "project_id", identity),
    Filter("uuid", "ids", _ids),
)
FILTERS = (
    *(replace(each, everybody=None) for each in _FOR_OPERATORS),
    Filter("availability_zone", everybody=_OPEN),
    Filter("changes-before", "changes_before", partial(read_end, name="changes-before"), since=_UNTIL),
    Filter("changes-since", "changes_since", partial(read_time, name="changes-since")),
    Filter("config_drive", read=_truth, everybody=_OPEN),
    Filter("created_at", read=_second, everybody=_OPEN),
    Filter("flavor", "flavor_id", _reference),
    Filter("hostname", everybody=_NAMED),
    Filter("image", "image_id", _reference),
    Filter("ip"),
    Filter("ip6", read=usual_form, everybody=(2, 5)),
    Filter("key_name", everybody=_OPEN),
    Filter("launched_at", read=_second, everybody=_OPEN),
    Filter("locked", read=_strict, since=_LOCKED),
    Filter("name"),
    Filter("power_state", read=_number, everybody=_OPEN),
    Filter("progress", read=_number, everybody=_OPEN),
    Filter("reservation_id"),
    Filter("task_state", everybody=_OPEN),
    Filter("terminated_at", read=_second, everybody=_OPEN),
    Filter("user_id", read=identity, everybody=_OPEN),
    Filter("vm_state", everybody=_OPEN),
    *(
        Filter(name, name.replace("-", "_"), partial(_tags, name=name), since=_TAGGED)
        for name in ("tags", "tags-any", "not-tags", "not-tags-any")
    ),
)
"""The filters, with the selector's names as ``lookup``. Operators may use all of them in every version."""
FILTERING = Filtering(nul="")
"""The schema has rejected unknown parameters and NUL characters."""


def listing(version: Version) -> Schema:
    """The query of ``GET /servers`` and ``GET /servers/detail``."""
    names = ("all_tenants", "marker", "sort_dir", "status", *schemas_of(FILTERS, version))
    return query(version, dict.fromkeys(names, TEXT) | {"limit": COUNT, "sort_key": sort_schema(version)})


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
