"""Keeps callers from taking an administrator's power, by a new password for one or a place in a group of theirs."""

from django.db.models import Q

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy
from provisioning.identity.last_admin import roles_bringing_admin
from provisioning.identity.models import Group, GroupMembership, RoleAssignment, User


def is_superior(context: RequestContext, record: User | Group) -> bool:
    """Whether a user or a group is ``admin`` where the caller is not: policy may let others look after people, too.

    Operators of the cloud have no superior; the administrator of a domain has none who is ``admin`` on it only.
    """
    if policy.allows(context, "admin_required"):
        return False
    own = policy.allows(context, "domain_admin", {"domain_id": record.domain_id})
    return _is_admin_somewhere(record, but_on=record.domain_id if own else None)


def refuse_superior(context: RequestContext, record: User | Group) -> None:
    """Raise ForbiddenError when the user or the group ``is_superior``."""
    if is_superior(context, record):
        what = "group" if isinstance(record, Group) else "user"
        raise ForbiddenError(f"The {what} has the role admin beyond your reach. Ask an operator of the cloud.")


def _is_admin_somewhere(record: User | Group, *, but_on: str | None = None) -> bool:
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
