"""Search of instances for the list: by name or address, and by status."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
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
"""Statuses to filter by: the API's name and the label."""
DELETED = ("SOFT_DELETED", "Deleted")


def statuses() -> tuple[tuple[str, str], ...]:
    """Return the statuses to filter by. Soft-deleted instances are listed only under the status ``SOFT_DELETED``."""
    return (*STATUSES, DELETED) if settings.RECLAIM_INSTANCE_INTERVAL else STATUSES


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of the list: ``text`` is a part of a name, an address, or the beginning of an address."""

    text: str = ""
    status: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Filter:
        """Read the filter from the query of the list's address."""
        return cls(asked.get("q", "").strip()[:255], asked.get("status", ""))

    def looked_up(self, context: RequestContext) -> dict[str, Any]:
        """Return the filters for the selectors. Raises TooManyRequestsError if the caller exceeds the search rate."""
        ids = _with_address(context, self.text) if _like_address(self.text) else None
        name = self.text if self.text and ids is None else None
        if name:
            rate_limits.check(context, rate_limits.SEARCHES)
        known = self.status if self.status and self.status in dict(statuses()) else None
        return {"name": name, "status": known, "ids": ids}


@dataclass(frozen=True, slots=True)
class Found:
    """One page of the list, newest first; ``older`` and ``newer`` are the markers of the adjacent pages.

    ``total`` is the number of matches, if they exceed one page.
    """

    instances: list[Instance]
    older: str = ""
    newer: str = ""
    total: int = 0
    later: bool = False
    """Whether this is not the first page."""


def find(context: RequestContext, wanted: Filter, *, older: str = "", newer: str = "") -> Found:
    """Return the page after the instance ``older`` or before the instance ``newer``, or else the first page."""
    filters = wanted.looked_up(context)
    search = partial(compute.instances_for, context, limit=PAGE_SIZE + 1, **filters)
    backwards = bool(newer) and not older
    try:
        rows = search(marker=older or newer or None, backwards=backwards)
    except InvalidInputError:  # the marker was deleted: start again
        rows, older, backwards = search(), "", False
    if backwards and len(rows) <= PAGE_SIZE:
        rows, backwards = search(), False
    shown = rows[-PAGE_SIZE:] if backwards else rows[:PAGE_SIZE]
    more = backwards or len(rows) > PAGE_SIZE
    before = bool(older) or backwards
    return Found(
        shown,
        older=str(shown[-1].id) if more else "",
        newer=str(shown[0].id) if before and shown else "",
        total=compute.count_for(context, **filters) if more or before else 0,
        later=before,
    )


def all_matching(context: RequestContext, wanted: Filter, most: int) -> list[Instance]:
    """Return the newest matching instances, at most ``most``."""
    return compute.instances_for(context, limit=most, **wanted.looked_up(context))


def page_name(wanted: Filter) -> str:
    """Return the live page name of the list with its filter."""
    filters = {name: value for name, value in (("q", wanted.text), ("status", wanted.status)) if value}
    return f"instances?{urlencode(filters)}" if filters else "instances"


def matching(context: RequestContext, ids: Collection[uuid.UUID], narrowed: str) -> list[Instance]:
    """Return those of the instances ``ids`` that match the list's filter, oldest first; ``narrowed`` is the filter as a
    query string.
    """
    filters = parse_qs(narrowed, max_num_fields=10)
    text, status = filters.get("q", [""])[0], filters.get("status", [""])[0]
    if _like_address(text):
        ids, text = set(ids) & set(_with_address(context, text)), ""
    known = status if status in dict(statuses()) and status else None
    oldest_first = [Sort("created_at", descending=False)]
    return compute.instances_for(context, ids=ids, name=text or None, status=known, sort=oldest_first)


def _like_address(text: str) -> bool:
    """Whether the text is an IPv4 address or the beginning of one (``10.20.``)."""
    parts = text.rstrip(".").split(".")
    return "." in text and len(parts) + text.endswith(".") > 1 and all(part.isdigit() for part in parts)


def _with_address(context: RequestContext, text: str) -> list[uuid.UUID]:
    """Return the ids of the project's instances with this address, or with an address that begins with the text."""
    try:
        return network.device_ids_at(context, str(addressing.read_address(text)))
    except ValueError:
        return network.device_ids_at(context, text, begins=True)
