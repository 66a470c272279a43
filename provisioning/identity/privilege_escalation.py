"""Keeps callers from taking an administrator's power, by a new password for one or a place in a group of theirs."""

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy
from provisioning.identity.directory.get import is_admin_somewhere
from provisioning.identity.models import Group, User


def is_superior(context: RequestContext, record: User | Group) -> bool:
    """Whether a user or a group is ``admin`` where the caller is not: policy may let others look after people, too.

    Operators of the cloud have no superior; the administrator of a domain has none who is ``admin`` on it only.
    """
    if policy.allows(context, "admin_required"):
        return False
    own = policy.allows(context, "domain_admin", {"domain_id": record.domain_id})
    return is_admin_somewhere(record, but_on=record.domain_id if own else None)


def refuse_superior(context: RequestContext, record: User | Group) -> None:
    """Raise ForbiddenError when the user or the group ``is_superior``."""
    if is_superior(context, record):
        what = "group" if isinstance(record, Group) else "user"
        raise ForbiddenError(f"The {what} has the role admin beyond your reach. Ask an operator of the cloud.")
