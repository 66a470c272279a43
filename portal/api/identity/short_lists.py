"""Short lists of the Identity API, filtered, sorted and paged in memory: roles, regions, services, endpoints."""

from collections.abc import Callable, Iterable
from typing import Any

from rest_framework.request import Request

from portal.api.common.paging import next_query, read_page
from portal.api.common.validation import Schema
from portal.api.identity.fragments import list_links
from portal.api.identity.queries import boolean, parameters
from provisioning.common.errors import InvalidInputError

Shape = dict[str, Any]

_WAYS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, text: text in value,
    "startswith": lambda value, text: value.startswith(text),
    "endswith": lambda value, text: value.endswith(text),
}


def listed(
    request: Request, name: str, items: Iterable[Shape], *, filters: tuple[str, ...], path: str | None = None
) -> Shape:
    """Return the list's body: the items that match the query's ``filters``, sorted by ``sort_key`` and ``sort_dir``,
    ``limit`` of them after ``marker``.

    Text attributes also have ``name__contains``, ``__startswith`` and ``__endswith``, and with an ``i`` prefix the
    case-insensitive forms. ``path`` of the list begins after ``/v3``. Raises InvalidInputError for an invalid value.
    """
    found = [item for item in items if all(_matches(request, item, attribute) for attribute in filters)]
    found = _sorted(request, found, {"id", *filters})
    page = read_page(request)
    if page.marker is not None:
        places = [place for place, item in enumerate(found) if item["id"] == page.marker]
        if not places:
            raise InvalidInputError(f"Marker {page.marker[:64]} could not be found.", field="marker")
        found = found[places[0] + 1 :]
    shown = found[: page.limit]
    following = next_query(request, page, [item["id"] for item in shown]) if len(shown) < len(found) else None
    return {name: shown, "links": list_links(request, path or f"/{name}", following)}


def query_of(*filters: str) -> Schema:
    """Return the schema of the query of a short list (``listed``), for the OpenAPI document."""
    texts = [f"{name}__{prefix}{way}" for name in filters if name != "enabled" for way in _WAYS for prefix in ("", "i")]
    schemas: dict[str, Schema] = {name: {"type": "string"} for name in ("limit", "marker", *filters, *texts)}
    schemas |= {"sort_key": {"enum": ["id", *filters]}, "sort_dir": {"enum": ["asc", "desc"]}}
    return parameters(schemas)


def _matches(request: Request, item: Shape, attribute: str) -> bool:
    query, value = request.query_params, item[attribute]
    if attribute in query:
        wanted: object = boolean(attribute, query[attribute]) if isinstance(value, bool) else query[attribute]
        if value != wanted and not (value is None and wanted in {"", "null"}):
            return False
    if not isinstance(value, str):
        return True
    for way, holds in _WAYS.items():
        for prefix, fold in (("", str), ("i", str.casefold)):
            text = query.get(f"{attribute}__{prefix}{way}")
            if text is not None and not holds(fold(value), fold(text)):
                return False
    return True


def _sorted(request: Request, items: list[Shape], known: set[str]) -> list[Shape]:
    key, direction = request.query_params.get("sort_key"), request.query_params.get("sort_dir", "asc")
    if direction not in {"asc", "desc"}:
        raise InvalidInputError("sort_dir must be asc or desc.", field="sort_dir")
    if key is None:
        return items
    if key not in known:
        raise InvalidInputError(f"sort_key must be one of {', '.join(sorted(known))}.", field="sort_key")
    return sorted(items, key=lambda item: str(item[key] or ""), reverse=direction == "desc")
