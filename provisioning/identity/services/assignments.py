"""Role assignments."""

from typing import Any, Unpack

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.roles.grant_target import Target, columns_of
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.tokens import announce


@when_broken_off
def grant(role: Role, **target: Unpack[Target]) -> RoleAssignment:
    """Assign a role on a project, a domain or the system to a user or group; an existing assignment is kept.

    Raises ForbiddenError for a domain-specific role on a project of another domain, InvalidInputError for a
    domain-specific role on the system, NotFoundError if the role, the user or group, or the target was deleted in the
    meantime.
    """
    row = columns_of(**target)
    _check_domain(role, row["project"], row["domain"])
    with conflict_as("The user, group, project, domain or role was deleted in the meantime.", NotFoundError):
        return RoleAssignment.objects.get_or_create(role=role, **row)[0]


@when_broken_off
def revoke_grant(role: Role, **target: Unpack[Target]) -> None:
    """Revoke a role; takes effect immediately.

    Raises NotFoundError if it was not assigned, ForbiddenError if the cloud would lose its last administrator.
    """
    row = columns_of(**target)
    user, project = row["user"], row["project"]
    with keeping_an_administrator():
        if not RoleAssignment.objects.filter(role=role, **row).delete()[0]:
            raise NotFoundError(no_assignment(role, user or row["group"], project or row["domain"] or "system"))
        announce.revoked(
            user_id=user.id if user else None, project_id=project.id if project and not row["inherited"] else None
        )


def no_assignment(role: Role, actor: User | Group | None, target: Project | Domain | str) -> str:
    """Return Keystone's message for a missing assignment."""
    names = [_id(each) for each in (role, actor, target)]
    return (
        f"Could not find role assignment with role: {names[0]}, user or group: {names[1]}, "
        f"project, domain, or system: {names[2]}."
    )


@when_broken_off
def assign_role(user: User, project: Project, role: str) -> None:
    """Assign a role on the project to the user.  Raises InvalidInputError for an unknown role."""
    record = Role.objects.filter(name=role, domain=None).first()
    if record is None:
        raise InvalidInputError(f"There is no role {role}.", field="role")
    RoleAssignment.objects.get_or_create(user=user, project=project, role=record, inherited=False)


def _check_domain(role: Role, project: Project | None, domain: Domain | None) -> None:
    if role.domain_id is None:
        return
    if project is None and domain is None:
        raise InvalidInputError(
            f"The role {role.name} is domain-specific and cannot be assigned on the system.", field="role"
        )
    if project is not None and project.domain_id != role.domain_id:
        raise ForbiddenError(f"The role {role.name} belongs to another domain and cannot be assigned here.")


def _id(record: Any) -> str:
    if isinstance(record, str):
        return record
    return str(record.id) if isinstance(record, Domain) else str(record.id.hex)
