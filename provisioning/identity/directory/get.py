"""One domain or group by its id, who is in a group, and whether somebody is an administrator."""

from __future__ import annotations

from django.db.models import Q

from provisioning.common.errors import NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity.last_admin import roles_bringing_admin
from provisioning.identity.models import Domain, Group, GroupMembership, RoleAssignment, User


def domain(domain_id: str) -> Domain:
    """Return a domain, or raise NotFoundError."""
    found = None if "\0" in domain_id else Domain.objects.filter(id=domain_id).first()
    if found is None:
        raise NotFoundError(f"Could not find domain: {domain_id[:64]}.")
    return found


def group_or_none(group_id: str) -> Group | None:
    """Return the group of this id, or None."""
    key = read_id(group_id)
    return Group.objects.filter(id=key).first() if key else None


def is_in(group: Group, user: User) -> bool:
    """Whether the user is in the group."""
    return GroupMembership.objects.filter(group=group, user=user).exists()


def is_admin_somewhere(record: User | Group, *, but_on: str | None = None) -> bool:
    """Whether the user or the group has the role ``admin``, in whatever way, anywhere but on this domain itself."""
    if isinstance(record, User):
        groups = GroupMembership.objects.filter(user=record).values("group")
        given = RoleAssignment.objects.filter(Q(user=record) | Q(group__in=groups))
    else:
        given = RoleAssignment.objects.filter(group=record)
    given = given.filter(role__in=roles_bringing_admin())
    if but_on is not None:
        given = given.exclude(domain=but_on, inherited=False)
    return given.exists()
