"""Look-ups of many records for imports, with a small number of queries."""

import uuid
from collections.abc import Collection, Mapping
from typing import TypeVar

from provisioning.identity.models import Group, GroupMembership, Project, RoleAssignment, User

AT_ONCE = 500
"""Number of names in one query."""

Named = TypeVar("Named", User, Project, Group)


def find_by_name(model: type[Named], names: Mapping[str, Collection[str]]) -> dict[tuple[str, str], Named]:
    """Return (domain id, name) → record. ``names``: domain id → names."""
    result: dict[tuple[str, str], Named] = {}
    for domain_id, those in names.items():
        ordered = sorted(name for name in those if "\0" not in name)
        for begin in range(0, len(ordered), AT_ONCE):
            part = model._default_manager.filter(domain=domain_id, name__in=ordered[begin : begin + AT_ONCE])
            result |= {(domain_id, record.name): record for record in part}
    return result


def memberships_in(groups: Collection[uuid.UUID]) -> set[tuple[uuid.UUID, uuid.UUID]]:
    """Return the members of these groups, as pairs of group and user id."""
    return set(GroupMembership.objects.filter(group__in=groups).values_list("group_id", "user_id"))


def roles_given_on(projects: Collection[uuid.UUID]) -> set[tuple[uuid.UUID, uuid.UUID | None, uuid.UUID]]:
    """Return the direct roles of users on these projects, as (project, user, role) ids."""
    assignments = RoleAssignment.objects.filter(project__in=projects, user__isnull=False, inherited=False)
    return set(assignments.values_list("project_id", "user_id", "role_id"))
