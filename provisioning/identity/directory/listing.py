"""Lists of domains, projects, users and groups, with their filters and sorting."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, Q, QuerySet, TextField, Value
from django.db.models.functions import Length, Lower, Right, StrIndex
from django.db.models.lookups import Exact, GreaterThan

from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Domain, Group, Project, User
from provisioning.identity.selectors.entries import projects_of

Record = TypeVar("Record", bound=Model)

LARGEST = 1000
"""Maximum number of rows in one response."""
BY_NAME = (Sort("name", descending=False),)


@dataclass(frozen=True, slots=True)
class RowPage(Generic[Record]):
    """Rows of a list; ``truncated``: there are more."""

    rows: list[Record]
    truncated: bool


def find(rows: QuerySet[Record], part: Part) -> RowPage[Record]:
    """Return one page of the rows, by default sorted by name. Raises InvalidInputError for an invalid marker."""
    return cut(LISTING, rows, replace(part, sort=part.sort or BY_NAME))


def cut(listing: Listing[Any], rows: QuerySet[Record], part: Part) -> RowPage[Record]:
    """Return one page of at most ``LARGEST`` rows. Raises InvalidInputError for an invalid marker."""
    limit = min(part.limit or LARGEST, LARGEST)
    page = listing.page(rows, replace(part, limit=limit + 1))
    return RowPage(page[:limit], truncated=len(page) > limit)


def inexact(word: str, column: str) -> dict[str, Callable[[str], Q]]:
    """Return the filters of ``column`` by a part of its text: ``word__contains``, ``word__icontains`` …"""
    ways = ("contains", "startswith", "endswith")
    return {f"{word}__{prefix}{how}": _part(column, how, fold=bool(prefix)) for how in ways for prefix in ("", "i")}


def _part(name: str, how: str, *, fold: bool) -> Callable[[str], Q]:
    """Return a filter that compares by position: LIKE is case-sensitive on PostgreSQL and case-insensitive on
    SQLite.
    """

    def condition(text: str) -> Q:
        column: Any = Lower(name) if fold else F(name)
        requested: Any = Value(text, output_field=TextField())
        requested = Lower(requested) if fold else requested
        if how == "endswith":
            return Q(Exact(Right(column, Length(requested)), requested)) if text else Q()
        place = StrIndex(column, requested)
        return Q(GreaterThan(place, 0)) if how == "contains" else Q(Exact(place, 1))

    return condition


def _all_tags(words: Iterable[str]) -> Q:
    return Q(*(Q(pk__in=Project.objects.filter(tags__name=word).values("pk")) for word in words))


def _any_tag(words: Iterable[str]) -> Q:
    return Q(pk__in=Project.objects.filter(tags__name__in=words).values("pk"))


def _expires_at_another_time(moment: datetime) -> Q:
    return ~Q(password_expires_at=moment)


LISTING = Listing[Any](
    order=(Sort("id", descending=False),),
    filters={
        **inexact("name", "name"),
        "tags": _all_tags,
        "tags-any": _any_tag,
        "not-tags": lambda words: ~_all_tags(words),
        "not-tags-any": lambda words: ~_any_tag(words),
        "password_expires_at__neq": _expires_at_another_time,
    },
    no_marker="marker must be the id of an entry of the list.",
)
"""The filters of the Identity API v3. Other names are columns or Django lookups."""


def domains(part: Part, *, within: str | None = None) -> RowPage[Domain]:
    """Return domains; ``within``: only the domain with this id."""
    rows = Domain.objects.all()
    return find(rows if within is None else rows.filter(id=within), part)


def projects(
    part: Part, *, within: str | None = None, open_to: uuid.UUID | None = None, parent: str | None = None
) -> RowPage[Project]:
    """Return projects with their tags. ``open_to``: only projects that this user has access to. ``parent``: the
    children of this project or domain.
    """
    rows = _within(Project.objects.prefetch_related("tags"), within)
    if open_to is not None:
        rows = rows.filter(id__in=[project.id for project in projects_of(open_to)])
    if parent is not None:
        above = read_id(parent)
        below = Q(parent=None, domain=parent)
        rows = rows.filter(below | Q(parent=above) if above else below)
    return find(rows, part)


def users(part: Part, *, within: str | None = None, only: uuid.UUID | None = None) -> RowPage[User]:
    """Return users; ``only``: only the user with this id."""
    rows = _within(User.objects.all(), within)
    return find(rows if only is None else rows.filter(id=only), part)


def groups(part: Part, *, within: str | None = None) -> RowPage[Group]:
    return find(_within(Group.objects.all(), within), part)


def users_in(group: Group, part: Part, *, within: str | None = None) -> RowPage[User]:
    return find(_within(User.objects.filter(member_of=group), within), part)


def groups_of(user: User, part: Part, *, within: str | None = None) -> RowPage[Group]:
    return find(_within(Group.objects.filter(users=user), within), part)


def _within(rows: QuerySet[Record], domain_id: str | None) -> QuerySet[Record]:
    return rows if domain_id is None else rows.filter(domain=domain_id)
