"""Safeguards of roles: no privilege escalation, and never a cloud without an administrator."""

import functools
import operator
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy
from provisioning.identity.models import (
    Group,
    GroupMembership,
    ImpliedRole,
    Project,
    Role,
    RoleAssignment,
    TrustRole,
    User,
)

ADMIN = "admin"
BEYOND_DOMAINS = (ADMIN, "service")
"""On any project, ``admin`` administers the cloud, and ``service`` sends events to all servers."""


def roles_bringing(*names: str) -> set[uuid.UUID]:
    """Return the ids of the global roles with these names (case-insensitive, as in rules), and of all roles that imply
    one of them.
    """
    named = functools.reduce(operator.or_, (Q(name__iexact=name) for name in names))
    result = set(Role.objects.filter(named, domain=None).values_list("id", flat=True))
    new = result
    while new:
        new = set(ImpliedRole.objects.filter(implied__in=new).values_list("prior", flat=True)) - result
        result |= new
    return result


def roles_beyond_domains() -> set[uuid.UUID]:
    """Return the ids of the roles that only operators may assign, because these roles apply to all projects."""
    return roles_bringing(*BEYOND_DOMAINS)


def is_superior(context: RequestContext, record: User | Group) -> bool:
    """Return whether a user or group has rights that the caller lacks, because policy may let non-operators manage
    users.

    Such rights are roles that apply beyond domains (``roles_beyond_domains``), directly or by a trust, and roles on the
    system or on another domain. Operators do not lack any rights. For a domain's administrator, ``admin`` on that
    domain does not count.
    """
    if policy.allows(context, "admin_required"):
        return False
    own = policy.allows(context, "domain_admin", {"domain_id": record.domain_id})
    return _has_power(record, but_on=record.domain_id if own else None)


def refuse_superior(context: RequestContext, record: User | Group) -> None:
    """Raise ForbiddenError if the user or group ``is_superior``."""
    if is_superior(context, record):
        what = "group" if isinstance(record, Group) else "user"
        raise ForbiddenError(f"The {what} has a role that you may not assign. Ask an operator of the cloud.")


def _has_power(record: User | Group, *, but_on: str | None = None) -> bool:
    """Return whether the user or group has rights as in ``is_superior``; roles on the domain ``but_on`` are ignored."""
    if isinstance(record, User):
        groups = GroupMembership.objects.filter(user=record).values("group")
        assignments = RoleAssignment.objects.filter(Q(user=record) | Q(group__in=groups))
    else:
        assignments = RoleAssignment.objects.filter(group=record)
    beyond = roles_beyond_domains()
    elsewhere = Q(domain__isnull=False, inherited=False) & ~Q(domain=record.domain_id)
    assignments = assignments.filter(Q(role__in=beyond) | Q(system=True) | elsewhere)
    if but_on is not None:
        assignments = assignments.exclude(domain=but_on, inherited=False)
    return assignments.exists() or (isinstance(record, User) and _is_trusted_with(record, beyond))


def _is_trusted_with(user: User, roles: Collection[uuid.UUID]) -> bool:
    """Return whether a trust delegates one of these roles to the user."""
    lasting = Q(trust__expires_at=None) | Q(trust__expires_at__gt=timezone.now())
    return TrustRole.objects.filter(lasting, trust__trustee=user, role__in=roles).exists()


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
