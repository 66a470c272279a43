"""Who owns what is limited: each app says which of its records a quota limits and how to count them anew.

``quota_check`` compares the ledger with these counts.  A kind of record that belongs to a project or a user is declared
here, as limited or with the reason why it is not; ``tests/quotas/test_gate.py`` fails for one that is not.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from provisioning.quotas.limits import DEFAULTS


@dataclass(frozen=True, slots=True)
class Holding:
    """What one row makes its owner hold of one resource; ``committed`` False while it is being made.

    ``user_id``: for whom it is counted, of what is one of ``limits.OF_USERS``.
    """

    scope_id: uuid.UUID
    owner_id: uuid.UUID
    resource: str
    amount: int = 1
    committed: bool = True
    user_id: uuid.UUID | None = None


Recount = Callable[[uuid.UUID | None], Iterable[Holding]]
"""Counts the rows of one scope (a project or a user), or of all (None); an owner and resource come once at most."""

limited: dict[str, tuple[str, ...]] = {}
"""Model (``compute.Instance``) → the resources that limit it."""
unlimited: dict[str, str] = {}
"""Model → why no quota limits it."""
_recounts: dict[str, Recount] = {}
Measure = Callable[[uuid.UUID], Mapping[str, int]]
"""Counts what a project has of resources that the ledger does not keep: resource → amount."""
_measures: dict[str, Measure] = {}


def count(name: str, recount: Recount, models: Mapping[str, tuple[str, ...]]) -> None:
    """Declare limited models and the function that counts them; ``name`` is whose function it is."""
    unknown = {resource for resources in models.values() for resource in resources} - DEFAULTS.keys()
    if unknown:
        raise ValueError(f"There are no quotas named {', '.join(sorted(unknown))}.")
    _recounts[name] = recount
    limited.update(models)


def measure(name: str, function: Measure, models: Mapping[str, tuple[str, ...]]) -> None:
    """Declare limited models that are counted anew at each question, and the function that does."""
    _measures[name] = function
    limited.update(models)


def measured(project_id: uuid.UUID) -> dict[str, int]:
    """Count what a project has of the resources that the ledger does not keep."""
    return {resource: many for function in _measures.values() for resource, many in function(project_id).items()}


def leave_free(reasons: Mapping[str, str]) -> None:
    """Declare models that no quota limits, each with the reason."""
    unlimited.update(reasons)


def holdings(scope_id: uuid.UUID | None = None) -> Iterable[Holding]:
    """Count every owner's rows of one scope or of all."""
    for recount in _recounts.values():
        yield from recount(scope_id)
