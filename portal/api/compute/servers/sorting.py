"""The order of a list of servers: ``sort_key`` and ``sort_dir``, which may be repeated."""

from django.http import QueryDict

from portal.api.compute.dialect.schemas import Schema, Version
from portal.api.frame.lists import Sorting
from provisioning.common.errors import ForbiddenError
from provisioning.common.lists.listing import Sort
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
