"""Marker paging: ``limit``, ``marker`` and the link to the next page."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from rest_framework.request import Request

from provisioning.common.errors import InvalidInputError

LARGEST = 1000
"""Maximum number of items of one page, as in Nova."""


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page of a list: at most ``limit`` items after the item with the id ``marker``."""

    limit: int
    marker: str | None
    asked: bool
    """Whether the client specified a limit."""


def read_page(request: Request, largest: int = LARGEST, *, zero_is_none: bool = False) -> Page:
    """Return the page that the query requests.

    Raises InvalidInputError if ``limit`` is not a whole number from 0. A limit of 0 means the largest page, or with
    ``zero_is_none`` an empty page, as in Nova's lists with a marker.
    """
    text = request.query_params.get("limit")
    marker = request.query_params.get("marker") or None
    if text is None:
        return Page(largest, marker, asked=False)
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise InvalidInputError("limit must be a whole number, 0 or greater.", field="limit")
    limit = int(text)
    if not limit and not zero_is_none:
        limit = largest
    return Page(min(limit, largest), marker, asked=True)


def read_part(request: Request, largest: int = LARGEST) -> slice:
    """Return the slice that ``offset`` and ``limit`` of the query request; errors as in ``read_page``."""
    text = request.query_params.get("offset", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise InvalidInputError("offset must be a whole number, 0 or greater.", field="offset")
    return slice(int(text), int(text) + read_page(request, largest).limit)


def next_query(request: Request, page: Page, ids: Sequence[object]) -> str | None:
    """Return the query of the page after the page with these ids, with all other parameters. None: the last page."""
    if not ids or len(ids) < page.limit:
        return None
    kept = [
        (name, value)
        for name, values in request.query_params.lists()
        for value in values
        if name not in {"marker", "limit"}
    ]
    return urlencode([*kept, ("limit", str(page.limit)), ("marker", str(ids[-1]))])


def next_links(request: Request, page: Page, ids: Sequence[object], url: str) -> list[dict[str, str]]:
    """Return the next link as Nova and Neutron write it, or an empty list; ``url`` is the list's address."""
    query = next_query(request, page, ids)
    return [] if query is None else [{"rel": "next", "href": f"{url}?{query}"}]
