"""The order of a list of servers: ``sort_key`` and ``sort_dir``, which may be repeated."""

from portal.api.compute.schemas import Schema, Version
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.listing import Sort
from provisioning.compute.selectors.instances import SORT_KEYS

# fmt: off
_IGNORED = (
    "architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted",
    "deleted_at", "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on",
    "locked", "memory_mb", "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus",
    "vm_mode",
)
# fmt: on
"""Accepted and ignored, as in the API reference; ``locked`` is a sort key from 2.73 on."""
_ALIASES = {"name", "id"}
_OPERATORS_ONLY = ("host", "node")


def sort_schema(version: Version) -> Schema:
    """Return the schema of ``sort_key``."""
    keys = {*(SORT_KEYS.keys() - _ALIASES), "root_device_name", *_IGNORED}
    return {"type": "string", "enum": sorted(keys)}


def read_sort(keys: list[str], directions: list[str], version: Version, *, every: bool) -> list[Sort]:
    """Return the sort keys, by default newest first; ``every``: the caller may sort by every column.

    Raises InvalidInputError for an unknown direction, and ForbiddenError for a key reserved to operators.
    """
    for direction in directions:
        if direction not in {"asc", "desc"}:
            raise InvalidInputError("Unknown sort direction, must be 'desc' or 'asc'", field="sort_dir")
    keys = keys or ["created_at"]
    if len(directions) > len(keys):
        raise InvalidInputError("Sort direction size exceeds sort key size", field="sort_dir")
    usual = directions[0] if directions else "desc"
    pairs = list(zip(keys, [*directions, *([usual] * (len(keys) - len(directions)))], strict=True))
    for key in keys:
        if key in _OPERATORS_ONLY and not every:
            raise ForbiddenError(f"Only administrators can sort servers by {key}")
    ignored = {*_IGNORED, "root_device_name"} - ({"locked"} if version >= (2, 73) else set())
    return [Sort(key, descending=way == "desc") for key, way in pairs if key not in ignored]
