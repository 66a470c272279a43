"""Finding instances for the list: by name or address, and by status."""

import uuid
from collections.abc import Collection
from functools import partial
from urllib.parse import parse_qs, urlencode

from django.conf import settings

from portal.common import rate_limits
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.listing import Sort
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.network import addressing
from provisioning.network import selectors as network

PAGE_SIZE = 100
STATUSES = (("", "All"), ("ACTIVE", "Active"), ("BUILD", "Building"), ("SHUTOFF", "Stopped"), ("ERROR", "Error"))
"""Statuses to narrow by: the API's word and ours."""
DELETED = ("SOFT_DELETED", "Deleted")


def statuses() -> tuple[tuple[str, str], ...]:
    """Return what the list can be narrowed by; deleted instances are in no list but their own, while they are kept."""
    return (*STATUSES, DELETED) if settings.RECLAIM_INSTANCE_INTERVAL else STATUSES


def find(context: RequestContext, *, text: str, status: str, marker: str | None) -> list[Instance]:
    """Return one instance more than a page holds, newest first.

    ``text`` is a part of the name, or an address or its beginning; ``marker`` the last instance of the page before.
    """
    known = status if status in dict(statuses()) and status else None
    ids = _with_address(context, text) if _like_address(text) else None
    name = text if text and ids is None else None
    if name:
        rate_limits.check(context, rate_limits.SEARCHES)
    search = partial(compute.instances_for, context, name=name, status=known, ids=ids, limit=PAGE_SIZE + 1)
    try:
        return search(marker=marker or None)
    except InvalidInputError:  # the last instance of the page before is gone: begin anew
        return search()


def page_name(text: str, status: str) -> str:
    """Return the name by which the list's socket follows it, with its filter."""
    filters = {name: value for name, value in (("q", text), ("status", status)) if value}
    return f"instances?{urlencode(filters)}" if filters else "instances"


def matching(context: RequestContext, ids: Collection[uuid.UUID], narrowed: str) -> list[Instance]:
    """Return those of the instances that a list shows whose filter is the query ``narrowed``, oldest first."""
    filters = parse_qs(narrowed, max_num_fields=10)
    text, status = filters.get("q", [""])[0], filters.get("status", [""])[0]
    if _like_address(text):
        ids, text = set(ids) & set(_with_address(context, text)), ""
    known = status if status in dict(statuses()) and status else None
    oldest_first = [Sort("created_at", descending=False)]
    return compute.instances_for(context, ids=ids, name=text or None, status=known, sort=oldest_first)


def _like_address(text: str) -> bool:
    """Whether the text is an IPv4 address or begins like one (``10.20.``)."""
    parts = text.rstrip(".").split(".")
    return "." in text and len(parts) + text.endswith(".") > 1 and all(part.isdigit() for part in parts)


def _with_address(context: RequestContext, text: str) -> list[uuid.UUID]:
    """Return the ids of the project's instances with this address, or one that begins so."""
    try:
        return network.device_ids_at(context, str(addressing.read_address(text)))
    except ValueError:
        return network.device_ids_at(context, text, begins=True)
