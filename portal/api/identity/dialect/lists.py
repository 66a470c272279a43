"""Keystone's lists: unpaged lists, lists that are filtered and paged in memory, and lists that the database pages.

Also parts of requests and responses: ids, additional attributes, times, links, names, queries.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from oslo_utils import strutils
from rest_framework.request import Request

from portal.api.frame import TEXT, Filter, Filtering, Json, Pages, Schema, Sorting, endpoint, schemas_of
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import ItemListing, Part
from provisioning.common.values.ids import read_id
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.models import Domain, Project, Role, User

NEVER = frozenset({"original_password", "federated"})
"""Fields that have a meaning in other requests (a password change, federation). They are rejected here and never
stored.
"""
SHOWN = frozenset({"links", "password_expires_at"})
"""Fields of responses; they are ignored, so that clients can send a response back."""


def additional(body: Mapping[str, Any], known: Container[str]) -> Json:
    """Return the additional fields of a body. Raises InvalidInputError for a field that cannot be set."""
    for name in body:
        if name in NEVER or not name.strip():
            raise InvalidInputError(f"Invalid input for field/attribute {name}. It cannot be set here.", field=name)
    return {name: value for name, value in body.items() if name not in known and name not in SHOWN}


def text(value: str | None) -> str:
    """Return the text; null becomes empty."""
    return value or ""


def moment(body: Mapping[str, Any], name: str) -> datetime | None:
    """Return the time of a field in ISO 8601, in UTC if it has no time zone. Raises InvalidInputError if it is
    malformed.
    """
    text = body.get(name)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be like 2030-01-31T12:00:00Z.", field=name) from error


def hexadecimal(key: Any) -> str:
    """Return an id as Keystone writes it: 32 hexadecimal characters, or the text of a domain's or region's id."""
    return key if isinstance(key, str) else str(key.hex)


def time_of(moment: datetime) -> str:
    """Return ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_without_zone(moment: datetime) -> str:
    """Return ``2026-01-31T12:00:00.000000`` in UTC, the format in which Keystone writes times of its database."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def expiry(user: User) -> str | None:
    """Return the time at which the password expires, as ``2026-01-31T12:00:00.000000`` in UTC; None if it does not."""
    if user.password_expires_at is None or user.options.get("ignore_password_expiry") is True:
        return None
    return time_without_zone(user.password_expires_at)


def self_link(request: Request, path: str) -> Json:
    """Return the links of one object; ``path`` begins after ``/v3``."""
    return {"self": endpoint(request, "identity") + path}


def own_path(request: Request) -> str:
    """Return the path of the request after ``/v3``, with UUIDs as 32 hexadecimal characters."""
    segments = request.path.partition("/v3")[2].rstrip("/").split("/")
    return "/".join(key.hex if (key := read_id(each)) else each for each in segments)


def listing(request: Request, name: str, items: Iterable[Json], path: str) -> Json:
    return {name: list(items), "links": {"next": None, "previous": None, **self_link(request, path)}}


def list_links(request: Request, path: str, following: str | None = None) -> Json:
    """Return the links of a list; ``path`` begins after ``/v3``, ``following`` is the query of the next page."""
    address = endpoint(request, "identity") + path
    query = request.META.get("QUERY_STRING", "")
    return {
        "self": f"{address}?{query}" if query else address,
        "previous": None,
        "next": f"{address}?{following}" if following else None,
    }


def named(record: Domain | Role) -> Json:
    """Return id and name, as in tokens; a role's id is 32 hexadecimal characters."""
    return {"id": record.id if isinstance(record, Domain) else record.id.hex, "name": record.name}


def named_in_domain(record: User | Project) -> Json:
    """Return id, name and domain, as in tokens."""
    return {"id": record.id.hex, "name": record.name, "domain": named(record.domain)}


def parameters(schemas: Mapping[str, Schema]) -> Schema:
    """Return the schema of a query whose parameters are optional and repeatable; unknown ones are ignored."""
    return {"type": "object", "properties": {name: {"type": "array", "items": one} for name, one in schemas.items()}}


def boolean(name: str, text: str) -> bool:
    """Return the boolean in the text; empty is true, as in Keystone. Raises InvalidInputError."""
    try:
        return not text or bool(strutils.bool_from_string(text, strict=True))
    except ValueError as error:
        raise InvalidInputError(f"{name} must be true or false.", field=name) from error


def flag(request: Request, name: str) -> bool:
    """Whether the query has this parameter with a value other than false."""
    return name in request.query_params and boolean(name, request.query_params[name])


Page = tuple[Sequence[Any], Json]
"""The records of a page, and the other members of the body."""

_WAYS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda value, text: text in value,
    "startswith": lambda value, text: value.startswith(text),
    "endswith": lambda value, text: value.endswith(text),
}
_INEXACT = tuple(f"__{prefix}{way}" for way in _WAYS for prefix in ("", "i"))
TIME = "%Y-%m-%dT%H:%M:%SZ"
EXPIRY = "password_expires_at"
COMPARISONS = ("lt", "lte", "gt", "gte", "eq", "neq")
FILTERING = Filtering()
FILTERING_IN_MEMORY = replace(FILTERING, nul="")
LIST_PAGES = Pages()
SORTING = Sorting(
    unknown_key="sort_key must be one of {known}.",
    unknown_way="sort_dir must be asc or desc.",
    mismatch="There are too many sort_key or sort_dir parameters.",
    too_many="There are too many sort_key or sort_dir parameters.",
    without=("name",),
)
SORTING_IN_MEMORY = replace(SORTING, without=(), mismatch="")
ITEMS = ItemListing[tuple[Any, Json]](
    value=lambda item, name: str(item[1][name] or ""), marker=lambda item: item[1]["id"]
)
"""Records with their attributes, in the order in which they were read."""
MOST_WORDS = 100
"""Maximum number of tags in one filter, and of sort keys."""
MOST_COMPARISONS = 20
"""Maximum number of filters by a part of the name, and of filters by the password's expiry."""


class Lists(ABC):
    """The declaration of a resource's list."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema of the query; empty without parameters."""

    @abstractmethod
    def page(self, view: Any) -> Page:
        """Return the page that the request of a view asks for. Raises InvalidInputError."""


@dataclass(frozen=True)
class Whole(Lists):
    """A list without filters and pages."""

    @property
    def schema(self) -> Schema:
        return {}

    def page(self, view: Any) -> Page:
        return view.rows(), {"links": {"next": None, "previous": None, **self_link(view.request, view.address)}}


WHOLE = Whole()


@dataclass(frozen=True)
class InMemory(Lists):
    """A short list, filtered by attributes, sorted and paged in memory.

    Attributes with text also have the filters ``name__contains``, ``__startswith`` and ``__endswith``, and with an
    ``i`` prefix the case-insensitive forms.
    """

    filters: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        return _parameters(self.every_filter, ("id", *self.filters))

    @cached_property
    def every_filter(self) -> Sequence[Filter]:
        """The filters by whole values and by parts of texts."""
        texts = (name for name in self.filters if name != "enabled")
        return (*map(Filter, self.filters), *(Filter(name + way) for name in texts for way in _INEXACT))

    def page(self, view: Any) -> Page:
        request, attributes = view.request, view.resource.by_name
        items = [(row, {name: attributes[name].value_of(row) for name in ("id", *self.filters)}) for row in view.rows()]
        filters = FILTERING_IN_MEMORY.read(request.query_params.lists(), self.every_filter)
        query = {each.name: value for each, value in filters}
        found = [item for item in items if all(_matches(query, name, item[1][name]) for name in self.filters)]
        sort = SORTING_IN_MEMORY.read(request.query_params, {name: name for name in sorted({"id", *self.filters})})
        page = LIST_PAGES.read(request)
        found = ITEMS.page(found, Part(sort=sort, limit=page.limit + 1, marker=page.marker))
        shown = found[: page.limit]
        more = len(shown) < len(found)
        following = LIST_PAGES.next_query(request, page, [values["id"] for _, values in shown]) if more else None
        return [row for row, _ in shown], {"links": list_links(request, view.address, following)}


@dataclass(frozen=True, kw_only=True)
class Paged(Lists):
    """A list that the database filters, sorts and pages; the column ``by_part`` can also be filtered by a part of its
    text.
    """

    filters: Sequence[Filter] = (Filter("name"),)
    by_part: str = "name"
    sort_keys: tuple[str, ...] = ("id", "name")

    @cached_property
    def every_filter(self) -> Sequence[Filter]:
        """The declared filters, and the filters by a part of an attribute's text."""
        return (*self.filters, *(Filter(self.by_part + way, every_value=True) for way in _INEXACT))

    @property
    def schema(self) -> Schema:
        return _parameters(self.every_filter, self.sort_keys)

    def page(self, view: Any) -> Page:
        found = view.find(self.read(view.request))
        return found.rows, ending(view.request, found, view.address)

    def read(self, request: Request) -> Part:
        """Return the filters, order and page of the query. Raises InvalidInputError with the name of an invalid
        parameter.

        Unknown parameters are ignored, as in Keystone.
        """
        query = request.query_params
        filters: list[tuple[str, Any]] = []
        comparisons: Counter[str] = Counter()
        for each, value in FILTERING.read(query.lists(), self.every_filter):
            if each.every_value:
                field = EXPIRY if each is EXPIRES else self.by_part
                comparisons[field] += len(value)
                filters += value if each is EXPIRES else [(each.lookup, text) for text in value]
            else:
                filters.append((each.lookup, value))
        for field, number in comparisons.items():
            if number > MOST_COMPARISONS:
                raise InvalidInputError(
                    f"A list can be filtered by at most {MOST_COMPARISONS} comparisons.", field=field
                )
        page, sort = LIST_PAGES.read(request), SORTING.read(query, {name: name for name in self.sort_keys})
        return Part(filters, sort, page.limit, page.marker)


def ending(request: Request, found: RowPage[Any], path: str) -> Json:
    """Return the members of a body other than the records: the links and, unless it is the last page, ``truncated``."""
    links = {"next": None, "previous": None, **self_link(request, path)}
    if not found.truncated:
        return {"links": links}
    query = LIST_PAGES.next_query(request, LIST_PAGES.read(request), [hexadecimal(row.pk) for row in found.rows])
    return {"links": links | {"next": f"{endpoint(request, 'identity')}{path}?{query}"}, "truncated": True}


def _parameters(filters: Sequence[Filter], sort_keys: Sequence[str]) -> Schema:
    schemas: dict[str, Schema] = dict.fromkeys(("limit", "marker"), TEXT) | schemas_of(filters)
    return parameters(schemas | {"sort_key": {"enum": [*sort_keys]}, "sort_dir": {"enum": ["asc", "desc"]}})


def _matches(query: Mapping[str, str], name: str, value: Any) -> bool:
    if name in query:
        expected: object = boolean(name, query[name]) if isinstance(value, bool) else query[name]
        if value != expected and not (value is None and expected in {"", "null"}):
            return False
    if not isinstance(value, str):
        return True
    for way, holds in _WAYS.items():
        for prefix, fold in (("", str), ("i", str.casefold)):
            text = query.get(f"{name}__{prefix}{way}")
            if text is not None and not holds(fold(value), fold(text)):
                return False
    return True


def _tags(name: str, text: str) -> tuple[str, ...]:
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


ENABLED = Filter("enabled", read=partial(boolean, "enabled"), checked_by={"enum": ["true", "false"]})
TAGS = tuple(Filter(name, read=partial(_tags, name)) for name in ("tags", "tags-any", "not-tags", "not-tags-any"))
EXPIRES = Filter(EXPIRY, read=_moment, every_value=True)
"""Comparisons with the time at which the password expires."""
