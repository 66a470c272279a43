"""One domain or group by its id, who is in a group, and whether somebody is an administrator."""

from django.db.models import Q

from provisioning.identity.last_admin import roles_bringing_admin
from provisioning.identity.models import Group, GroupMembership, RoleAssignment, User


def is_in(group: Group, user: User) -> bool:
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
