"""Steps of the dashboard that write several records: a user with a role, all roles of a member."""

import secrets
from collections.abc import Collection

from django.conf import settings
from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import Domain, Group, ImpliedRole, Project, Role, RoleAssignment, User
from provisioning.identity.roles.grant_target import Place, columns_of_place
from provisioning.identity.roles.safeguards import keeping_an_administrator
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.roles import imply, unimply
from provisioning.identity.services.users import create_user

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Characters that cannot be mistaken for each other."""


def new_password() -> str:
    """Return a random password that can be read aloud: four groups of four characters (79 bits), or more groups if the
    minimum length requires them.
    """
    groups = max(4, -(-settings.PASSWORD_MIN_LENGTH // 4))
    return "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(groups))


@transaction.atomic
def create_user_with_role(
    domain: Domain,
    name: str,
    *,
    password: str,
    email: str = "",
    description: str = "",
    project: Project | None = None,
    role: Role | None = None,
) -> User:
    """Create a user with the default project ``project`` and ``role`` on it; without a project the user has no role.

    Raises InvalidInputError for ``role`` if there is a project and no role.
    """
    if project is not None and role is None:
        raise InvalidInputError("Choose the role of the user on the project.", field="role")
    user = create_user(domain, name, password=password, email=email, description=description, default_project=project)
    if project is not None and role is not None:
        grant(role, user=user, project=project)
    return user


@when_broken_off
@transaction.atomic
def add_roles(
    actor: User | Group, place: Place, roles: Collection[Role], *, handed_down: Collection[Role] = ()
) -> None:
    """Assign roles to a user or group on the target, and the roles ``handed_down`` on the projects below it, in
    addition to existing ones.
    """
    user, group = _either(actor)
    for inherited, requested in ((False, roles), (True, handed_down)):
        for role in requested:
            grant(role, user=user, group=group, inherited=inherited, **columns_of_place(place))


@when_broken_off
def set_roles(
    actor: User | Group, place: Place, roles: Collection[Role], *, handed_down: Collection[Role] | None = None
) -> None:
    """Set the direct roles of a user or group on the target; an empty list removes the member.

    ``handed_down``, if given: the roles on the projects below a domain. Roles that the member has through groups or
    inherits are not changed. Raises ForbiddenError if the cloud would lose its last administrator.
    """
    user, group = _either(actor)
    where = columns_of_place(place)
    with keeping_an_administrator():
        for inherited, requested in ((False, roles), (True, handed_down)):
            if requested is None:
                continue
            assignments = RoleAssignment.objects.filter(user=user, group=group, inherited=inherited, **where)
            present = {row.role_id: row.role for row in assignments.select_related("role")}
            for role in requested:
                if role.id not in present:
                    grant(role, user=user, group=group, inherited=inherited, **where)
            for role in set(present.values()) - set(requested):
                revoke_grant(role, user=user, group=group, inherited=inherited, **where)


@when_broken_off
def set_implied(prior: Role, implied: Collection[Role]) -> None:
    """Set the roles that a role implies.  Raises ForbiddenError if the cloud would lose its last administrator."""
    with keeping_an_administrator():
        rows = ImpliedRole.objects.filter(prior=prior).select_related("implied")
        present = {row.implied_id: row.implied for row in rows}
        for role in implied:
            if role.id not in present:
                imply(prior, role)
        for role in set(present.values()) - set(implied):
            unimply(prior, role)


def _either(actor: User | Group) -> tuple[User | None, Group | None]:
    return (None, actor) if isinstance(actor, Group) else (actor, None)
