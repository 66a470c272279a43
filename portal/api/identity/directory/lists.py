"""Lists of the Identity API: filters, inexact filters on the name, sorting, ``limit`` and ``marker``."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rest_framework.request import Request

from portal.api.common.links import endpoint
from portal.api.common.paging import next_query, read_page
from portal.api.common.sorting import SortErrors, read_sort
from portal.api.common.validation import Schema
from portal.api.identity import fragments
from portal.api.identity.queries import boolean, parameters
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY, read_id
from provisioning.common.listing import Part, Sort
from provisioning.identity.directory.listing import Found, Record

_WAYS = tuple(f"__{prefix}{how}" for how in ("contains", "startswith", "endswith") for prefix in ("", "i"))
TAGS = ("tags", "tags-any", "not-tags", "not-tags-any")
TIME = "%Y-%m-%dT%H:%M:%SZ"
EXPIRY = "password_expires_at"
COMPARISONS = ("lt", "lte", "gt", "gte", "eq", "neq")
SORT_ERRORS = SortErrors("sort_key must be one of {known}.", "sort_dir must be asc or desc.")
MOST_WORDS = 100
"""Maximum number of tags in one filter, and of sort keys."""
MOST_COMPARISONS = 20
"""Maximum number of filters by a part of the name, and of filters by the password's expiry."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The query parameters of one kind of list: columns to filter by (values of ``ids`` are ids), the column
    ``by_part`` that can also be filtered by a part of its text, and columns to sort by.
    """

    texts: tuple[str, ...] = ("name",)
    ids: tuple[str, ...] = ()
    booleans: tuple[str, ...] = ()
    tags: bool = False
    expiry: bool = False
    by_part: str = "name"
    sort_keys: tuple[str, ...] = ("id", "name")

    @property
    def inexact(self) -> tuple[str, ...]:
        """The parameters that match a part of the text."""
        return tuple(f"{self.by_part}{way}" for way in _WAYS)


DOMAINS = Filters(booleans=("enabled",), sort_keys=("id", "name", "enabled"))
PROJECTS = Filters(
    texts=("name", "domain_id"),
    booleans=("enabled",),
    tags=True,
    sort_keys=("id", "name", "enabled", "domain_id", "parent_id", "description"),
)
USERS = Filters(
    texts=("name", "domain_id"),
    ids=("default_project_id",),
    booleans=("enabled",),
    expiry=True,
    sort_keys=("id", "name", "enabled", "domain_id", "default_project_id", "email", EXPIRY),
)
GROUPS = Filters(texts=("name", "domain_id"), sort_keys=("id", "name", "domain_id", "description"))


def query_of(filters: Filters) -> Schema:
    """Return the schema of the query for the OpenAPI document: the parameters that ``read`` reads."""
    texts = ("limit", "marker", *filters.texts, *filters.ids, *filters.inexact)
    texts += (*(TAGS if filters.tags else ()), *((EXPIRY,) if filters.expiry else ()))
    schemas: dict[str, Schema] = {name: {"type": "string"} for name in texts}
    schemas |= {name: {"enum": ["true", "false"]} for name in filters.booleans}
    schemas |= {"sort_key": {"enum": list(filters.sort_keys)}, "sort_dir": {"enum": ["asc", "desc"]}}
    return parameters(schemas)


def read(request: Request, filters: Filters) -> Part:
    """Return the filters, order and page of the query. Raises InvalidInputError with the name of an invalid parameter.

    Unknown parameters are ignored, as in Keystone.
    """
    query = request.query_params
    for name, value in query.items():
        if "\0" in name or "\0" in value:
            raise InvalidInputError("The query must not have a NUL character in it.", field=name.replace("\0", ""))
    equal: list[tuple[str, Any]] = [(name, query[name]) for name in filters.texts if name in query]
    equal += [(name, read_id(query[name]) or NOBODY) for name in filters.ids if name in query]
    equal += [(name, boolean(name, query[name])) for name in filters.booleans if name in query]
    names = [(name, value) for name in filters.inexact for value in query.getlist(name)]
    times = [_moment(value) for value in query.getlist(EXPIRY)[: MOST_COMPARISONS + 1]] if filters.expiry else []
    if max(len(names), len(times)) > MOST_COMPARISONS:
        field = EXPIRY if len(times) > MOST_COMPARISONS else filters.by_part
        raise InvalidInputError(f"A list is narrowed by at most {MOST_COMPARISONS} comparisons.", field=field)
    tags = [(how, _words(how, query[how])) for how in TAGS if how in query] if filters.tags else []
    page = read_page(request)
    sort = _sort(request, filters.sort_keys)
    return Part([*equal, *names, *tags, *times], sort, page.limit, page.marker)


def answer(
    request: Request, name: str, found: Found[Record], shape: Callable[[Request, Record], fragments.Shape], path: str
) -> fragments.Shape:
    """Return the list under its name; ``truncated`` and a ``next`` link are added unless it is the last page."""
    body = fragments.listing(request, name, (shape(request, record) for record in found.rows), path)
    if found.truncated:
        ids = [record.pk if isinstance(record.pk, str) else record.pk.hex for record in found.rows]
        query = next_query(request, read_page(request), ids)
        body["links"]["next"] = f"{endpoint(request, 'identity')}{path}?{query}"
        body["truncated"] = True
    return body


def _words(name: str, text: str) -> tuple[str, ...]:
    words = tuple(text.split(","))
    if len(words) > MOST_WORDS:
        raise InvalidInputError(f"{name} must name at most {MOST_WORDS} tags.", field=name)
    return words


def _moment(text: str) -> tuple[str, datetime]:
    how, colon, moment = text.partition(":")
    if not colon or how not in COMPARISONS:
        raise InvalidInputError(
            f"{EXPIRY} must be like lt:2030-01-31T12:00:00Z (lt, lte, gt, gte, eq, neq).", field=EXPIRY
        )
    try:
        found = datetime.strptime(moment, TIME).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInputError(f"{EXPIRY} must have a time like 2030-01-31T12:00:00Z.", field=EXPIRY) from error
    return (EXPIRY if how == "eq" else f"{EXPIRY}__{how}"), found


def _sort(request: Request, known: tuple[str, ...]) -> tuple[Sort, ...]:
    names, ways = request.query_params.getlist("sort_key"), request.query_params.getlist("sort_dir")
    if len(ways) > max(len(names), 1) or len(names) > len(known):
        raise InvalidInputError("There are more sort_key or sort_dir than can be.", field="sort_dir")
    names = names or (["name"] if ways else [])
    return read_sort(names, ways, {name: name for name in known}, SORT_ERRORS)
