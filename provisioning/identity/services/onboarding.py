"""What people do in one step and the records in several: a user with a role, all roles of a member."""

import secrets
from collections.abc import Collection

from django.conf import settings
from django.db import transaction

from provisioning.common.errors import InvalidInputError
from provisioning.common.retry import when_broken_off
from provisioning.identity.last_admin import keeping_an_administrator
from provisioning.identity.models import Domain, Group, ImpliedRole, Project, Role, RoleAssignment, User
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.roles import imply, unimply
from provisioning.identity.services.users import create_user

LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
"""Without those that are mistaken for another."""


def new_password() -> str:
    """Return a password that can be read to somebody: four groups of four letters and digits, 79 bits, or as many
    groups as the shortest password needs.
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
    """Make a user who starts in ``project`` with ``role`` on it; without a project the user has no role yet.

    InvalidInputError at ``role`` when there is a project and no role.
    """
    if project is not None and role is None:
        raise InvalidInputError("Choose the role that the user has on the project.", field="role")
    user = create_user(domain, name, password=password, email=email, description=description, default_project=project)
    if project is not None and role is not None:
        grant(role, user=user, project=project)
    return user


@when_broken_off
@transaction.atomic
def add_roles(actor: User | Group, project: Project, roles: Collection[Role]) -> None:
    """Let a user or a group have these roles on the project as well."""
    user, group = _either(actor)
    for role in roles:
        grant(role, user=user, group=group, project=project)


@when_broken_off
def set_roles(actor: User | Group, project: Project, roles: Collection[Role]) -> None:
    """Let a user or a group have these roles on the project itself and no others; with none of them it is no member.

    What comes by groups or from above stays.  ForbiddenError when the last administrator would go.
    """
    user, group = _either(actor)
    with keeping_an_administrator():
        given = RoleAssignment.objects.filter(project=project, user=user, group=group, inherited=False)
        present = {row.role_id: row.role for row in given.select_related("role")}
        for role in roles:
            if role.id not in present:
                grant(role, user=user, group=group, project=project)
        for role in set(present.values()) - set(roles):
            revoke_grant(role, user=user, group=group, project=project)


@when_broken_off
def set_implied(prior: Role, implied: Collection[Role]) -> None:
    """Let a role imply these and no others; ForbiddenError when the last administrator would go."""
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
