"""Keeps callers from taking power over the cloud, by a new password for who has it or a place in a group that has."""

import uuid
from collections.abc import Collection

from django.db.models import Q
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy
from provisioning.identity.models import Group, GroupMembership, RoleAssignment, TrustRole, User
from provisioning.identity.role_reach import roles_beyond_domains


def is_superior(context: RequestContext, record: User | Group) -> bool:
    """Whether a user or a group has power where the caller has none: policy may let others look after people, too.

    Such power is a role that counts beyond domains (``role_reach``), given to them or by a trust, and any role on the
    system or on another domain itself.  Operators of the cloud have no superior; the administrator of a domain has none
    who is ``admin`` on it only.
    """
    if policy.allows(context, "admin_required"):
        return False
    own = policy.allows(context, "domain_admin", {"domain_id": record.domain_id})
    return _has_power(record, but_on=record.domain_id if own else None)


def refuse_superior(context: RequestContext, record: User | Group) -> None:
    """Raise ForbiddenError when the user or the group ``is_superior``."""
    if is_superior(context, record):
        what = "group" if isinstance(record, Group) else "user"
        raise ForbiddenError(f"The {what} has a role beyond your reach. Ask an operator of the cloud.")


def _has_power(record: User | Group, *, but_on: str | None = None) -> bool:
    """Whether the user or the group has power, in whatever way, by anything but a role on this domain itself."""
    if isinstance(record, User):
        groups = GroupMembership.objects.filter(user=record).values("group")
        given = RoleAssignment.objects.filter(Q(user=record) | Q(group__in=groups))
    else:
        given = RoleAssignment.objects.filter(group=record)
    beyond = roles_beyond_domains()
    elsewhere = Q(domain__isnull=False, inherited=False) & ~Q(domain=record.domain_id)
    given = given.filter(Q(role__in=beyond) | Q(system=True) | elsewhere)
    if but_on is not None:
        given = given.exclude(domain=but_on, inherited=False)
    return given.exists() or (isinstance(record, User) and _is_trusted_with(record, beyond))


def _is_trusted_with(user: User, roles: Collection[uuid.UUID]) -> bool:
    """Whether somebody lets the user act with one of these roles."""
    lasting = Q(trust__expires_at=None) | Q(trust__expires_at__gt=timezone.now())
    return TrustRole.objects.filter(lasting, trust__trustee=user, role__in=roles).exists()
