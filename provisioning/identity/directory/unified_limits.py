"""Registered limits and limits that are visible to a caller."""

from typing import Any

from django.db.models import Q

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import read_id
from provisioning.identity.directory.listing import RowPage, cut, inexact
from provisioning.identity.models import Limit, RegisteredLimit

MODEL = {"name": "flat", "description": "A limit applies to one project only, not to its parents and children."}
_REGISTERED = Listing[Any](
    order=(Sort("resource_name", descending=False), Sort("id", descending=False)),
    filters=inexact("resource_name", "resource_name"),
)
_RESOURCE = {name: f"registered_limit__{name}" for name in ("service_id", "region_id", "resource_name")}
_LIMITS = Listing[Any](
    order=(Sort("registered_limit__resource_name", descending=False), Sort("id", descending=False)),
    filters={**_RESOURCE, **inexact("resource_name", _RESOURCE["resource_name"])},
    sort_keys={name: name for name in ("id", "project_id", "domain_id")} | _RESOURCE,
)


def registered_limits(part: Part) -> RowPage[RegisteredLimit]:
    return cut(_REGISTERED, RegisteredLimit.objects.all(), part)


def existing_registered_limit(registered_limit_id: str) -> RegisteredLimit:
    """Return a registered limit.  Raises NotFoundError."""
    key = read_id(registered_limit_id)
    registered_limit = RegisteredLimit.objects.filter(id=key).first() if key else None
    if registered_limit is None:
        shown = registered_limit_id[:64].replace("\0", "")
        raise NotFoundError(f"Could not find registered limit for {shown}.")
    return registered_limit


def limits_for(context: RequestContext, part: Part, *, everything: bool) -> RowPage[Limit]:
    """Return all limits, or without ``everything`` the limits of the token's project or domain.

    A domain token also gets the limits of the domain's projects. Tokens with another scope get no limits.
    """
    rows = Limit.objects.select_related("registered_limit")
    if not everything:
        seen = Q(pk__in=[])
        if context.domain_id is not None:
            seen = Q(domain=context.domain_id) | Q(project__domain=context.domain_id)
        elif context.project_id is not None:
            seen = Q(project=context.project_id)
        rows = rows.filter(seen)
    return cut(_LIMITS, rows, part)


def existing_limit(limit_id: str) -> Limit:
    """Return a limit with its project and registered limit.  Raises NotFoundError."""
    key = read_id(limit_id)
    limit = Limit.objects.select_related("registered_limit", "project").filter(id=key).first() if key else None
    if limit is None:
        raise NotFoundError(f"Could not find limit for {limit_id[:64]}.")
    return limit
