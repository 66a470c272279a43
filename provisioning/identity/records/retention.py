"""Retention of the records of Identity."""

from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from provisioning.identity.models import AccessRule, ApplicationCredential
from provisioning.jobs.retention import Purged

_BY_OPERATORS = "Created and deleted by administrators of Identity."
_FLUSHED = "Deleted when it has expired: identity.flush."
_OF_CREDENTIAL = "Deleted with its application credential."


def note_unused() -> None:
    """Record since when no credential uses an access rule. As in Keystone, an unused rule is kept and can be used by
    its id.
    """
    AccessRule.objects.filter(~_named(), unused_since=None).update(unused_since=timezone.now())
    AccessRule.objects.filter(_named(), unused_since__isnull=False).update(unused_since=None)


def _access_rules(before: datetime) -> QuerySet[AccessRule]:
    return AccessRule.objects.filter(~_named(), unused_since__lt=before)


def _named() -> Exists:
    return Exists(ApplicationCredential.access_rules.through.objects.filter(accessrule_id=OuterRef("pk")))


PURGED = (Purged("access rules", AccessRule, _access_rules, prepare=note_unused),)
UNPURGED = {
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
    "identity.KnownAddress": "Deleted 30 days after the last sign-in from there: identity.flush.",
    "identity.ApplicationCredential": "Limited for each user, and deleted 30 days after it has expired.",
    "identity.ApplicationCredential_roles": _OF_CREDENTIAL,
    "identity.ApplicationCredential_access_rules": _OF_CREDENTIAL,
    "identity.Trust": "Limited for each user, and deleted 30 days after it has expired or was used up.",
    "identity.TrustRole": "Deleted with its trust.",
    "identity.Credential": "Limited for each user, and deleted with its user.",
}
