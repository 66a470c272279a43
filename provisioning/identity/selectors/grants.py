"""Stored role assignments."""

from typing import Unpack

from provisioning.identity.models import Role, RoleAssignment
from provisioning.identity.roles.grant_target import Target, columns_of


def granted_roles(**target: Unpack[Target]) -> list[Role]:
    """Return the roles that were assigned to this user or group on this target directly, by name."""
    rows = RoleAssignment.objects.filter(**columns_of(**target))
    return list(Role.objects.filter(id__in=rows.values("role")).order_by("name", "id"))


def has_grant(role: Role, **target: Unpack[Target]) -> bool:
    """Return whether this role was assigned directly."""
    return RoleAssignment.objects.filter(role=role, **columns_of(**target)).exists()
