"""To whom a role is given, and on what."""

from typing import Any, Literal, TypedDict, Unpack

from provisioning.identity.models import Domain, Group, Project, User

Place = Project | Domain | Literal["system"]
"""On what a role is given."""


def columns_of_place(place: Place) -> dict[str, Any]:
    """Return the column of a role assignment that says on what it is given."""
    if isinstance(place, Project):
        return {"project": place}
    return {"domain": place} if isinstance(place, Domain) else {"system": True}


class Target(TypedDict, total=False):
    """One user or one group, and one project, one domain or the system."""

    user: User | None
    group: Group | None
    project: Project | None
    domain: Domain | None
    system: bool
    inherited: bool
    """On all projects below the project or in the domain, not on itself."""


def columns_of(**target: Unpack[Target]) -> dict[str, Any]:
    """Return the columns of a role assignment; ValueError unless there are one actor and one place."""
    blank: Target = {
        "user": None, "group": None, "project": None, "domain": None, "system": False, "inherited": False,
    }  # fmt: skip
    found = blank | target
    if (found["user"] is None) == (found["group"] is None):
        raise ValueError("A role is given to a user or to a group.")
    if [found["project"] is not None, found["domain"] is not None, found["system"]].count(True) != 1:
        raise ValueError("A role is given on a project, on a domain or on the system.")
    return dict(found)
