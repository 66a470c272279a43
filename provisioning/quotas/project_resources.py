"""What goes with a project or a user: limits, counters and reservations; and which records no quota limits."""

from provisioning.identity.project_resources import Owned
from provisioning.quotas.services.ledger import forget

_OF_OPERATORS = "Made by those who manage identity: the project or user it names holds nothing by it."
_LEDGER = "The limits and the ledger themselves."


OF_PROJECTS = OF_USERS = (Owned("quotas", remove=forget),)
UNLIMITED = {
    "identity.Project": _OF_OPERATORS,
    "identity.ProjectTag": _OF_OPERATORS,
    "identity.User": _OF_OPERATORS,
    "identity.GroupMembership": _OF_OPERATORS,
    "identity.RoleAssignment": _OF_OPERATORS,
    "identity.ApplicationCredential": "A person's own sign-in, without a quota in Keystone's defaults.",
    "identity.ApplicationCredential_access_rules": "A part of application credentials.",
    "identity.ApplicationCredential_roles": "A part of application credentials.",
    "identity.AccessRule": "A part of application credentials.",
    "identity.Limit": _OF_OPERATORS,
    "identity.ProjectEndpoint": _OF_OPERATORS,
    "identity.ProjectEndpointGroup": _OF_OPERATORS,
    "identity.Credential": "A person's own secret, without a quota in Keystone's defaults.",
    "identity.Trust": "What a person lets others do, without a quota in Keystone; identity bounds them.",
    "identity.TrustRole": "A role of a trust, which is bounded.",
    "identity.KnownAddress": "Twenty of a user at most; identity forgets them after 30 days.",
    "identity.SignIn": "One for each session or client of a user; identity bounds and flushes them.",
    "quotas.QuotaLimit": _LEDGER,
    "quotas.QuotaUsage": _LEDGER,
    "quotas.Reservation": _LEDGER,
}
KEPT = {
    "quotas.QuotaLimit": "Goes with its project.",
    "quotas.QuotaUsage": "Goes with its project.",
    "quotas.Reservation": "Goes with what it is held for.",
}
