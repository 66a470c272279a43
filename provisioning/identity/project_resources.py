"""The resources that projects own in other apps: a project can be deleted only when it owns none that count.

An app registers in ``AppConfig.ready``: what somebody has to remove first (servers, networks …) with a ``count``,
and what is deleted with its project (a default security group, quota rows) with a ``remove``.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from provisioning.common.errors import ConflictError

Ids = Sequence[uuid.UUID]
Count = Callable[[Ids], int]
Remove = Callable[[Ids], object]


@dataclass(frozen=True, slots=True)
class Owned:
    """A kind of resource, in the plural (``servers``): how to count them, or how they go with their owner."""

    kind: str
    count: Count | None
    remove: Remove | None


_of_projects: dict[str, Owned] = {}
_of_users: dict[str, Owned] = {}


def register(kind: str, count: Count | None, remove: Remove | None = None) -> None:
    """Make a kind of thing that projects own known; a second registration replaces the first.

    ``count(project_ids)`` says how many keep those projects from being deleted; ``remove(project_ids)`` takes away what
    does not, in the transaction that deletes the projects.
    """
    _of_projects[kind] = Owned(kind, count, remove)


def register_of_users(kind: str, remove: Remove) -> None:
    """Make a kind of thing known that goes with its user: ``remove(user_ids)`` in the transaction that deletes them."""
    _of_users[kind] = Owned(kind, None, remove)


def owned_by(project_ids: Ids) -> dict[str, int]:
    """Return kind → how many the projects own that must be removed first; only what there is."""
    counted = (
        {each.kind: each.count(project_ids) for each in _of_projects.values() if each.count} if project_ids else {}
    )
    return {kind: number for kind, number in counted.items() if number}


def refuse_owners(project_ids: Ids, who: str, *, hint: str = "") -> None:
    """Raise ConflictError, beginning with ``who``, when the projects own what must be removed first.

    ``hint``: the command that removes it.
    """
    owned = owned_by(project_ids)
    if owned:
        things = ", ".join(f"{kind} ({number})" for kind, number in sorted(owned.items()))
        raise ConflictError(f"{who} still owns {things}. Remove these first{f': {hint}' if hint else ''}.")


def remove_with_projects(project_ids: Ids) -> None:
    """Take away what goes with the projects."""
    _remove(_of_projects, project_ids)


def remove_with_users(user_ids: Ids) -> None:
    """Take away what goes with the users."""
    _remove(_of_users, user_ids)


def _remove(kinds: dict[str, Owned], ids: Ids) -> None:
    for each in kinds.values():
        if each.remove and ids:
            each.remove(ids)
