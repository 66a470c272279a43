"""Prevents privilege escalation by resetting the password of a privileged user or joining a privileged group."""

import uuid
from collections.abc import Collection

from django.db.models import Q
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy
from provisioning.identity.models import Group, GroupMembership, RoleAssignment, TrustRole, User
from provisioning.identity.roles.role_reach import roles_beyond_domains


def is_superior(context: RequestContext, record: User | Group) -> bool:
    """Return whether a user or group has rights that the caller lacks, because policy may let non-operators manage
    users.

    Such rights are roles that apply beyond domains (``role_reach``), directly or by a trust, and roles on the system or
    on another domain. Operators do not lack any rights. For a domain's administrator, ``admin`` on that domain does not
    count.
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
