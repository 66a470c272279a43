"""Queries for recounts; their SQL is compiled once, because a recount runs about thirty queries."""

import uuid
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet, UUIDField

from provisioning.common.database.prepared import Prepared

Row = TypeVar("Row")


class Counted(Generic[Row]):
    """The rows that a recount reads, of one scope (a project or a user) or of all scopes::

        NETWORKS = Counted(lambda: Network.objects.values_list("project_id", "pk"), "project_id")
        NETWORKS(None)

    ``scope``: lookup of the column with the id of the project or user.
    """

    def __init__(self, make: Callable[[], QuerySet[Any, Row]], scope: str = "project_id") -> None:
        self._all = Prepared(make)
        self._of_one = Prepared(lambda scope_id: make().filter(**{scope: scope_id}), scope_id=UUIDField())

    def __call__(self, scope_id: uuid.UUID | None) -> list[Row]:
        """Return the rows of a scope; None: of all scopes."""
        return self._all() if scope_id is None else self._of_one(scope_id=scope_id)
