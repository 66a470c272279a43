"""Who has which role where."""

from __future__ import annotations

from django.db import transaction

from provisioning.common.errors import InvalidInputError
from provisioning.identity import announce
from provisioning.identity.models import Project, Role, RoleAssignment, User
from provisioning.identity.safeguard import keeping_an_administrator


def assign_role(user: User, project: Project, role: str) -> None:
    """Give the user a role on the project; InvalidInputError when there is no such role."""
    record = Role.objects.filter(name=role, domain=None).first()
    if record is None:
        raise InvalidInputError(f"There is no role {role}.", field="role")
    RoleAssignment.objects.get_or_create(user=user, project=project, role=record, inherited=False)


@transaction.atomic
def remove_role(user: User, project: Project, role: str) -> None:
    """Take a role away; the user's tokens for the project are worth less at once, and nothing without any role."""
    with keeping_an_administrator():
        given = RoleAssignment.objects.filter(user=user, project=project, role__name=role, inherited=False)
        taken = given.delete()[0]
    if taken:
        announce.revoked(user_id=user.id, project_id=project.id)
