"""Queries of lists of metadata definitions."""

from rest_framework.request import Request

from portal.api.frame.lists import Page
from portal.api.image.images.queries import LIST_PAGES
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Sort


def read_sort(request: Request) -> list[Sort]:
    """Return the order in ``sort_key`` and ``sort_dir``. Raises InvalidInputError for an unknown direction."""
    way = request.query_params.get("sort_dir", "desc")
    if way not in {"asc", "desc"}:
        raise InvalidInputError(f"Invalid sort direction: {way[:80]}", field="sort_dir")
    return [Sort(request.query_params.get("sort_key", "created_at"), descending=way == "desc")]


def read_choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """Return the value of a filter that has fixed values; raises InvalidInputError for any other value."""
    value = request.query_params.get(name) or None
    if value is not None and value not in choices:
        raise InvalidInputError(f"Invalid {name} value: {value[:80]}", field=name)
    return value


def page_of(request: Request) -> Page:
    """Return the requested page. Raises InvalidInputError for a marker with NUL."""
    page = LIST_PAGES.read(request)
    if page.marker is not None and "\0" in page.marker:
        raise InvalidInputError("The marker has a NUL character in it.", field="marker")
    return page
