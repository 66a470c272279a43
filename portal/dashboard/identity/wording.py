"""Status labels of users and projects."""

from portal.common.statuses import Status
from provisioning.identity.lockout.lockout import lockout_of
from provisioning.identity.models import Project, User
from provisioning.identity.services.passwords import has_expired

ENABLED = Status("Enabled", "ok", "check-circle-fill")
DISABLED = Status("Disabled", "off", "slash-circle-fill")
LOCKED = Status("Locked out", "warn", "lock-fill")
EXPIRED = Status("Password expired", "warn", "clock-fill")
CLOSED_DOMAIN = Status("Domain disabled", "off", "slash-circle-fill")


def user_status(user: User) -> Status:
    """Return the status of a user: whether the user can sign in, and if not why."""
    if not user.enabled:
        return DISABLED
    if not user.domain.enabled:
        return CLOSED_DOMAIN
    if lockout_of(user) is not None:
        return LOCKED
    if has_expired(user):
        return EXPIRED
    return ENABLED


def project_status(project: Project) -> Status:
    if not project.enabled:
        return DISABLED
    return ENABLED if project.domain.enabled else CLOSED_DOMAIN
