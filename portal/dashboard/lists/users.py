"""The users that records belong to: the column and the filter of a list, and the search by a user's name."""

import uuid
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from django.db.models import Q

from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Filter, same_id
from portal.dashboard.words.markup import format_html
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.identity.selectors.lookups import DELETED_USER, user_labels, user_names, users_named

KEY = "user"
MOST = 1000
"""Maximum number of choices of the filter."""


class Users:
    """The names of the users of a page's records: one query, when the first name is shown."""

    def __init__(self, ids: Iterable[uuid.UUID | None]) -> None:
        self._ids = {each for each in ids if each is not None}

    @cached_property
    def _names(self) -> dict[uuid.UUID, str]:
        return user_names(self._ids)

    def name(self, user_id: uuid.UUID | None) -> str:
        """Return the name of a user; empty without a user."""
        return self._names.get(user_id, DELETED_USER) if user_id else ""


def column(
    of: Callable[[Any], tuple[uuid.UUID | None, str]], to: str, shown: Callable[[RequestContext], bool]
) -> Column:
    """Return the optional column of users, whose names filter the list.

    ``of`` returns id and name of a row's user, ``to`` is the URL name of the list. ``shown`` returns whether the column
    is shown to a caller who has not chosen columns.
    """

    def draw(row: Any) -> object:
        user_id, name = of(row)
        if not user_id:
            return ""
        return format_html(
            '<a class="muted" href="{}?{}={}" title="Show only what belongs to this user"><bdi>{}</bdi></a>',
            cells.url(to),
            KEY,
            user_id,
            name,
        )

    return Column(KEY, "User", draw, plain=lambda row: of(row)[1], optional=True, shown=shown)


def user_filter(users: Callable[[RequestContext], Iterable[uuid.UUID | None]]) -> Filter:
    """Return the filter by user; ``users`` returns the ids of the users of the records, at most ``MOST``."""

    def choices(context: RequestContext) -> list[tuple[str, str]]:
        return [(str(key), label) for key, label in user_labels(filter(None, users(context)))]

    return Filter(KEY, "User", choices, same_id("user_id"), closed=False)


def of_users_named(context: RequestContext, text: str) -> Q:
    """Match the records of other users with this text in their name.

    The caller's own name is not searched: in a project of one user it would find all records.
    """
    return Q(user_id__in=users_named(text).exclude(pk=context.user_id or NOBODY).values("pk"))
