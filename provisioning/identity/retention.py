"""What of identity is purged, and when."""

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from provisioning.identity.models import AccessRule, ApplicationCredential
from provisioning.jobs.retention import Purged

_BY_OPERATORS = "Made and removed by those who manage identity."
_FLUSHED = "Goes when it has expired: identity.flush."
_OF_CREDENTIAL = "Goes with its application credential."


def note_unused() -> None:
    """Write down since when no credential names a rule; as in Keystone, it stays to be named by its id."""
    AccessRule.objects.filter(~_named(), unused_since=None).update(unused_since=timezone.now())
    AccessRule.objects.filter(_named(), unused_since__isnull=False).update(unused_since=None)


def _access_rules(before: datetime) -> QuerySet[AccessRule]:
    return AccessRule.objects.filter(~_named(), unused_since__lt=before)


def _named() -> Exists:
    return Exists(ApplicationCredential.access_rules.through.objects.filter(accessrule_id=OuterRef("pk")))


PURGED = (Purged("access rules", AccessRule, _access_rules, prepare=note_unused),)
KEPT = {
    **dict.fromkeys(
        (
            *("identity.Domain", "identity.Project", "identity.ProjectTag", "identity.Role"),
            *("identity.ImpliedRole", "identity.User", "identity.Group", "identity.GroupMembership"),
            *("identity.RoleAssignment", "identity.Region", "identity.Service", "identity.Endpoint"),
            *("identity.EndpointGroup", "identity.ProjectEndpoint", "identity.ProjectEndpointGroup"),
            *("identity.RegisteredLimit", "identity.Limit", "identity.Policy"),
        ),
        _BY_OPERATORS,
    ),
    "identity.KeyRecord": "One row for each kind of key.",
    "identity.KeyHolder": "One row for each machine and kind of key; manage.py keys --forget removes them.",
    "identity.RevokedToken": _FLUSHED,
    "identity.SignIn": _FLUSHED,
    "identity.KnownAddress": "Goes when nobody has signed in from there for 30 days: identity.flush.",
    "identity.ApplicationCredential": "Bounded for each user, and goes 30 days after it has expired.",
    "identity.ApplicationCredential_roles": _OF_CREDENTIAL,
    "identity.ApplicationCredential_access_rules": _OF_CREDENTIAL,
    "identity.Trust": "Bounded for each user, and goes 30 days after it has expired or was used up.",
    "identity.TrustRole": "Goes with its trust.",
    "identity.Credential": "Bounded for each user, and goes with its user.",
}
