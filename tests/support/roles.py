"""Roles taken away in tests."""

from __future__ import annotations

from provisioning.identity.models import Project, Role, User
from provisioning.identity.services.assignments import revoke_grant


def remove_role(user: User, project: Project, role: str) -> None:
    """Take a role of the whole cloud away from a user of a project."""
    revoke_grant(Role.objects.get(name=role, domain=None), user=user, project=project)
