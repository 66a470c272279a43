"""Columns of role assignments: the user or group, and the target."""

from typing import Any, Literal, TypedDict, Unpack

from provisioning.identity.models import Domain, Group, Project, User

Place = Project | Domain | Literal["system"]
"""The target of a role assignment."""


def columns_of_place(place: Place) -> dict[str, Any]:
    """Return the column that stores a role assignment's target, with its value."""
    if isinstance(place, Project):
        return {"project": place}
    return {"domain": place} if isinstance(place, Domain) else {"system": True}


class Target(TypedDict, total=False):
    """A user or group, and a project, a domain or the system."""

    user: User | None
    group: Group | None
    project: Project | None
    domain: Domain | None
    system: bool
    inherited: bool
    """The role applies to all projects below the project or in the domain, but not to the target itself."""


def columns_of(**target: Unpack[Target]) -> dict[str, Any]:
    """Return the columns of a role assignment. Raises ValueError unless there are exactly one actor and one target."""
    blank: Target = {
        "user": None, "group": None, "project": None, "domain": None, "system": False, "inherited": False,
    }  # fmt: skip
    columns = blank | target
    if (columns["user"] is None) == (columns["group"] is None):
        raise ValueError("A role must be assigned to a user or to a group.")
    if [columns["project"] is not None, columns["domain"] is not None, columns["system"]].count(True) != 1:
        raise ValueError("A role must be assigned on a project, a domain or the system.")
    return dict(columns)
