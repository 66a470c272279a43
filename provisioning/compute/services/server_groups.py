"""Server groups: made, deleted, and joined at a launch; and which scheduler hints this cloud obeys."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import connection

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.common.ids import read_id
from provisioning.compute.models import Instance, ServerGroup
from provisioning.quotas import selectors as quota_limits
from provisioning.quotas.limits import UNLIMITED

NEAR_SERVERS = ("same_host", "different_host")
"""Hints that name servers."""
NOT_OFFERED = frozenset({"query", "build_near_host_ip", "cidr", "target_cell"})
"""Hints of the reference that need filters which this cloud has not; obeying half of a wish would be a lie."""
MOST_SERVERS = 1000
"""Servers that one hint may name."""


def check_hints(hints: Mapping[str, object]) -> dict[str, object]:
    """Return the hints that are obeyed: ``group`` (an id), ``same_host`` and ``different_host`` (lists of ids).

    What the reference does not know is ignored, as in Nova.  Raises InvalidInputError naming a hint that is wrong, or
    that is not offered here.
    """
    refused = sorted(NOT_OFFERED & hints.keys())
    if refused:
        raise InvalidInputError(
            f"The scheduler hint {refused[0]!r} is not offered by this cloud; use group, same_host or different_host.",
            field=refused[0],
        )
    kept: dict[str, object] = {}
    if "group" in hints:
        kept["group"] = _id(hints["group"], "group")
    for name in NEAR_SERVERS:
        if name in hints:
            value = hints[name]
            named = value if isinstance(value, list | tuple) else [value]
            if len(named) > MOST_SERVERS:
                raise InvalidInputError(
                    f"Invalid input for {name}: it names {len(named)} servers; at most {MOST_SERVERS} are allowed.",
                    field=name,
                )
            kept[name] = [_id(item, name) for item in named]
    return kept


def _id(value: object, hint: str) -> str:
    found = read_id(value)
    if found is None:
        raise InvalidInputError(f"Invalid input for {hint}: {str(value)[:64]!r} is not a 'uuid'.", field=hint)
    return str(found)


def group_for_launch(context: RequestContext, group_id: object, count: int = 1) -> ServerGroup:
    """Return the group that ``count`` new servers of the caller's project are to join.

    Inside a transaction the group is held until its end, so that two launches at once do not pass the quota
    ``server_group_members`` together.  Raises InvalidInputError for a group that is none of the project's, and
    OverQuotaError.
    """
    found = read_id(group_id)
    rows = ServerGroup.objects.filter(id=found, project_id=context.project_id)
    if connection.in_atomic_block:
        rows = rows.select_for_update(no_key=True)
    group = rows.first() if found is not None else None
    if group is None:
        raise InvalidInputError(f"Instance group {str(group_id)[:64]} could not be found.", field="group")
    limit = quota_limits.limits_of(group.project_id)["server_group_members"]
    if limit != UNLIMITED:
        members = Instance.objects.filter(server_group=group, deleted_at=None).count()
        if members + count > limit:
            raise OverQuotaError("server_group_members", limit=limit, used=members, asked=count)
    return group
