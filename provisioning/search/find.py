"""Search: bounded queries of each kind, for names, ids, addresses and tags.

One query for each kind returns a few rows, the beginning of a name before its middle.
"""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import Case, Q, QuerySet, SmallIntegerField, When

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.search.sources import SOURCES, Source

OF_KIND = 6
"""Maximum number of results of one kind."""
LONGEST = 255
LEAST_ID = 6
"""Minimum number of hexadecimal digits that are read as the beginning of an id."""
_HEX = re.compile(r"[0-9a-f-]+")
_ADDRESS = re.compile(r"[0-9a-f]*[.:/][0-9a-f.:/]*")


@dataclass(frozen=True, slots=True)
class Hit:
    """A resource that was found. ``parent`` is the resource whose page shows it, if it has no page of its own.

    ``project_id`` is None for resources of no project.
    """

    kind: str
    label: str
    id: str
    name: str
    detail: str = ""
    parent: uuid.UUID | None = None
    project_id: uuid.UUID | None = None
    record: Any = None


def search(context: RequestContext, text: str) -> Iterator[Hit]:
    """Yield the resources that the caller sees and that match the text, by kind, best first.

    Operators find the resources of all projects.
    """
    cleaned = _clean(text)
    if not cleaned:
        return
    for source in SOURCES:
        if _is_seen(context, source):
            yield from islice(_of_source(context, source, cleaned), OF_KIND)


def _clean(text: str) -> str:
    return " ".join(text.replace("\0", "").split())[:LONGEST]


def _is_seen(context: RequestContext, source: Source) -> bool:
    if source.in_project and context.project_id is None:
        return False
    target = {} if source.in_project else {"domain_id": context.domain_id}
    return policy.allows(context, source.rule, target)


def _of_source(context: RequestContext, source: Source, text: str) -> Iterator[Hit]:
    rows = source.rows(context, context.is_admin).order_by()
    seen: set[str] = set()
    for row in _matches(source, rows, text):
        hit = _hit(source, row)
        if hit.id not in seen:
            seen.add(hit.id)
            yield hit
    if source.kind == "instance" and _ADDRESS.fullmatch(text.lower()):
        yield from (hit for hit in _at_address(context, source, rows, text) if hit.id not in seen)


def _matches(source: Source, rows: QuerySet[Any], text: str) -> Iterator[Any]:
    """Yield rows by name, address, tag or id, with one query: the whole name, then its beginning, then other matches.

    A row may occur once for each of its addresses.
    """
    exact, begins, found = Q(), Q(), Q()
    for column in source.names:
        exact |= Q(**{f"{column}__iexact": text})
        begins |= Q(**{f"{column}__istartswith": text})
        found |= Q(**{f"{column}__icontains": text})
    for column in source.addresses:
        found |= Q(**{f"{column}__startswith": text.lower()})
    if source.tagged is not None:
        found |= source.tagged(text)
    if source.by_id and (condition := _by_id(text)) is not None:
        found |= condition
    rank = Case(When(exact, then=0), When(begins, then=1), default=2, output_field=SmallIntegerField())
    yield from rows.filter(found).order_by(rank)[: 2 * OF_KIND]


def _by_id(text: str) -> Q | None:
    """Return the condition for an id, or for the beginning of one; None for other texts."""
    if (known := read_id(text)) is not None:
        return Q(pk=known)
    digits = text.lower().replace("-", "")
    if not LEAST_ID <= len(digits) < 32 or not _HEX.fullmatch(text.lower()):
        return None
    return Q(pk__gte=uuid.UUID(digits.ljust(32, "0")), pk__lte=uuid.UUID(digits.ljust(32, "f")))


def _at_address(context: RequestContext, source: Source, rows: QuerySet[Any], text: str) -> Iterator[Hit]:
    """Yield the instances with ports or floating IPs that have this address or MAC address, or its beginning."""
    collected: dict[uuid.UUID, str] = {}
    for kind, device, address in (
        ("port", "device_id", "fixed_ips__address"),
        ("port", "device_id", "mac_address"),
        ("floating_ip", "fixed_port__device_id", "address"),
    ):
        of = next(each for each in SOURCES if each.kind == kind)
        if not policy.allows(context, of.rule):
            continue
        ports = of.rows(context, context.is_admin).prefetch_related(None).select_related(None).order_by()
        ports = ports.filter(**{f"{address}__startswith": text.lower(), f"{device}__isnull": False})
        for key, value in ports.values_list(device, address)[: 4 * OF_KIND]:
            collected.setdefault(key, value)
    shown = rows.filter(pk__in=list(collected)[: 4 * OF_KIND]) if collected else ()
    yield from (_hit(source, row, collected[row.pk]) for row in shown)


def _hit(source: Source, row: Any, detail: str = "") -> Hit:
    return Hit(
        source.kind,
        source.label,
        source.ident(row),
        source.name_of(row),
        detail or str(source.detail(row) or ""),
        source.parent(row),
        getattr(row, "project_id", None),
        row,
    )


def one(context: RequestContext, kind: str, ident: str) -> Hit:
    """Return a resource by its id. Raises NotFoundError if the caller does not see it."""
    source = next((each for each in SOURCES if each.kind == kind), None)
    key = read_id(ident)
    row = None
    if source is not None and source.by_id and key is not None and _is_seen(context, source):
        row = source.rows(context, context.is_admin).filter(pk=key).first()
    if source is None or row is None:
        raise NotFoundError("This resource was not found.")
    return _hit(source, row)
