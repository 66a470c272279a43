"""Rejects changes that would leave the cloud without an administrator."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import Q

from provisioning.common.errors import ForbiddenError
from provisioning.identity.models import GroupMembership, Project, Role, RoleAssignment, User
from provisioning.identity.roles.role_reach import ADMIN, roles_bringing


@contextmanager
def keeping_an_administrator() -> Iterator[None]:
    """Run a block in a transaction; roll it back and raise ForbiddenError if it removes the last administrator.

    Such changes are serialized, because each of two concurrent changes could remove one of the last two administrators.
    To avoid deadlocks, enter this context before any other rows are locked.
    """
    with transaction.atomic():
        lock_changes()
        before = has_administrator()
        yield
        if before and not has_administrator():
            raise ForbiddenError(
                "This would leave the cloud without an administrator."
                " Assign the role admin to another enabled user first."
            )


def lock_changes() -> None:
    """Lock changes of effective roles until the caller's transaction ends."""
    list(Role.objects.select_for_update(no_key=True).filter(name=ADMIN, domain=None).values_list("id"))


def has_administrator() -> bool:
    """Return whether an enabled user has the role ``admin`` on the system or an enabled project, directly or
    indirectly.
    """
    assignments = RoleAssignment.objects.filter(role__in=roles_bringing(ADMIN))
    users = User.objects.filter(enabled=True, domain__enabled=True)
    members = GroupMembership.objects.filter(user__in=users).values("group")
    granted = assignments.filter(Q(user__in=users) | Q(group__in=members))
    projects = Project.objects.filter(enabled=True, domain__enabled=True)
    if granted.filter(Q(system=True) | Q(project__in=projects, inherited=False)).exists():
        return True
    domains = granted.filter(domain__isnull=False, inherited=True).values("domain")
    if projects.filter(domain__in=domains).exists():
        return True
    above = set(granted.filter(project__isnull=False, inherited=True).values_list("project", flat=True))
    while above:  # the trees have few levels
        below = projects.filter(parent__in=above)
        if below.exists():
            return True
        above = set(Project.objects.filter(parent__in=above).values_list("id", flat=True))
    return False
