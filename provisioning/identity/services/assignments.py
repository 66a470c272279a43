"""Who has which role where."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.retry import when_broken_off
from provisioning.identity import announce
from provisioning.identity.conflicts import told_as
from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from provisioning.identity.safeguard import keeping_an_administrator


@when_broken_off
def grant(
    role: Role,
    *,
    user: User | None = None,
    group: Group | None = None,
    project: Project | None = None,
    domain: Domain | None = None,
    system: bool = False,
    inherited: bool = False,
) -> None:
    """Give a user or a group a role on a project, a domain or the system; what was given already stays.

    ``inherited``: on all projects below the project or in the domain, not on itself.  ForbiddenError for a role of a
    domain elsewhere, InvalidInputError for one on the system, NotFoundError when one of them was deleted meanwhile.
    """
    row = _row(user, group, project, domain, system=system) | {"role": role, "inherited": inherited}
    _check_domain(role, project, domain)
    with told_as("The user, group, project, domain or role was deleted meanwhile.", NotFoundError):
        RoleAssignment.objects.get_or_create(**row)


@when_broken_off
def revoke_grant(
    role: Role,
    *,
    user: User | None = None,
    group: Group | None = None,
    project: Project | None = None,
    domain: Domain | None = None,
    system: bool = False,
    inherited: bool = False,
) -> None:
    """Take a role away, at once; the arguments are those of ``grant``.

    NotFoundError when it was not given so, ForbiddenError when nobody would administer the cloud any more.
    """
    row = _row(user, group, project, domain, system=system) | {"role": role, "inherited": inherited}
    with keeping_an_administrator():
        if not RoleAssignment.objects.filter(**row).delete()[0]:
            raise NotFoundError(no_assignment(role, user or group, project or domain or "system"))
        whole = project is not None and not inherited
        announce.revoked(
            user_id=user.id if user is not None else None,
            project_id=project.id if project is not None and whole else None,
        )


def no_assignment(role: Role, actor: User | Group | None, target: Project | Domain | str) -> str:
    """Return Keystone's sentence for an assignment that does not exist."""
    names = [_id(each) for each in (role, actor, target)]
    return (
        f"Could not find role assignment with role: {names[0]}, user or group: {names[1]}, "
        f"project, domain, or system: {names[2]}."
    )


@when_broken_off
def assign_role(user: User, project: Project, role: str) -> None:
    """Give the user a role on the project; InvalidInputError when there is no such role."""
    record = Role.objects.filter(name=role, domain=None).first()
    if record is None:
        raise InvalidInputError(f"There is no role {role}.", field="role")
    RoleAssignment.objects.get_or_create(user=user, project=project, role=record, inherited=False)


@when_broken_off
@transaction.atomic
def remove_role(user: User, project: Project, role: str) -> None:
    """Take a role away; the user's tokens for the project are worth less at once, and nothing without any role."""
    with keeping_an_administrator():
        given = RoleAssignment.objects.filter(
            user=user, project=project, role__name=role, role__domain=None, inherited=False
        )
        taken = given.delete()[0]
    if taken:
        announce.revoked(user_id=user.id, project_id=project.id)


def _row(
    user: User | None, group: Group | None, project: Project | None, domain: Domain | None, *, system: bool
) -> dict[str, Any]:
    """Return the columns of an assignment; ValueError unless there are one actor and one target."""
    if (user is None) == (group is None):
        msg = "A role is given to a user or to a group."
        raise ValueError(msg)
    if [project is not None, domain is not None, system].count(True) != 1:
        msg = "A role is given on a project, on a domain or on the system."
        raise ValueError(msg)
    return {"user": user, "group": group, "project": project, "domain": domain, "system": system}


def _check_domain(role: Role, project: Project | None, domain: Domain | None) -> None:
    if role.domain_id is None:
        return
    if project is None and domain is None:
        raise InvalidInputError(f"The role {role.name} is of a domain and cannot be given on the system.", field="role")
    where = project.domain_id if project is not None else domain.id if domain is not None else None
    if where != role.domain_id:
        raise ForbiddenError(f"The role {role.name} is of another domain and cannot be given here.")


def _id(record: Any) -> str:
    if isinstance(record, str):
        return record
    return str(record.id) if isinstance(record, Domain) else str(record.id.hex)
