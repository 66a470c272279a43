"""The records that quotas limit, and functions that count them.

``quota_check`` compares the ledger with these counts. A model that belongs to a project or a user either has a
limit, or a reason why it has none; ``tests/quotas/test_gate.py`` fails for a model with neither.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.common.wired import Wired

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Holding:
    """The amount of a resource that a record uses; ``committed`` False while it is being created.

    ``user_id``: the user, for resources in ``limits.OF_USERS``.
    """

    scope_id: uuid.UUID
    owner_id: uuid.UUID
    resource: str
    amount: int = 1
    committed: bool = True
    user_id: uuid.UUID | None = None


Recount = Callable[[uuid.UUID | None], Iterable[Holding]]
"""Counts the records of one scope (a project or a user), or of all (None). An owner occurs once for each resource."""

Measure = Callable[[uuid.UUID], Mapping[str, int]]
"""Counts the resources of a project that have no ledger: resource → amount."""


@dataclass(frozen=True, slots=True)
class InLedger:
    """Models (``compute.Instance``) with a ledger, and the resources that limit them."""

    recount: Recount
    models: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Models that are counted for each request, and the resources that limit them."""

    measure: Measure
    models: Mapping[str, tuple[str, ...]]


IN_LEDGER = Wired[InLedger]("The records in the ledger")
MEASURED = Wired[Measured]("The records that are limited without a ledger")
UNLIMITED = Wired[Mapping[str, str]]("The records that no quota limits")
"""Model → the reason why no quota limits it."""


def measured(project_id: uuid.UUID) -> dict[str, int]:
    """Count the resources of a project that have no ledger."""
    return {resource: many for each in MEASURED for resource, many in each.measure(project_id).items()}


def holdings(scope_id: uuid.UUID | None = None) -> Iterable[Holding]:
    """Count the records of one scope or of all."""
    for each in IN_LEDGER:
        yield from each.recount(scope_id)


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
