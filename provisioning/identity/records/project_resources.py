"""The resources of projects in other apps. A project can only be deleted if it has none that are counted."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from provisioning.common.errors import ConflictError
from provisioning.common.wired import Wired

Ids = Sequence[uuid.UUID]
Count = Callable[[Ids], int]
Remove = Callable[[Ids], object]


@dataclass(frozen=True, slots=True)
class Owned:
    """A kind of resource of projects or users, by its plural name (``servers``).

    ``count(owner_ids)`` returns the number of resources that prevent the deletion of these owners (servers, networks
    …). ``remove(owner_ids)`` deletes other resources (a default security group, quotas) in the transaction that deletes
    the owners.
    """

    kind: str
    count: Count | None = None
    remove: Remove | None = None


OF_PROJECTS = Wired[Owned]("The resources of projects")
OF_USERS = Wired[Owned]("The resources of users")


def owned_by(project_ids: Ids) -> dict[str, int]:
    """Return kind → the number of the projects' resources that must be deleted first; kinds without resources are
    omitted.
    """
    counted = {each.kind: each.count(project_ids) for each in OF_PROJECTS if each.count} if project_ids else {}
    return {kind: number for kind, number in counted.items() if number}


def refuse_owners(project_ids: Ids, who: str, *, hint: str = "") -> None:
    """Raise ConflictError, beginning with ``who``, if the projects have resources that must be deleted first.

    ``hint``: the command that deletes them.
    """
    owned = owned_by(project_ids)
    if owned:
        things = ", ".join(f"{kind} ({number})" for kind, number in sorted(owned.items()))
        raise ConflictError(f"{who} still owns {things}. Remove these first{f': {hint}' if hint else ''}.")


def remove_with_projects(project_ids: Ids) -> None:
    """Delete the resources that are deleted with their projects."""
    _remove(OF_PROJECTS, project_ids)


def remove_with_users(user_ids: Ids) -> None:
    """Delete the resources that are deleted with their users."""
    _remove(OF_USERS, user_ids)


def _remove(kinds: Iterable[Owned], ids: Ids) -> None:
    for each in kinds:
        if each.remove and ids:
            each.remove(ids)
