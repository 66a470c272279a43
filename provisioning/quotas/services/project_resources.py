"""Deletes limits, counters and reservations with their project or user; and lists the records without a quota."""

from provisioning.identity.records.project_resources import Owned
from provisioning.quotas.services.ledger import forget

_OF_OPERATORS = "Created by administrators of Identity, not by the project or user itself."
_LEDGER = "The limits and the ledger themselves."


OF_PROJECTS = OF_USERS = (Owned("quotas", remove=forget),)
UNLIMITED = {
    "identity.Project": _OF_OPERATORS,
    "identity.ProjectTag": _OF_OPERATORS,
    "identity.User": _OF_OPERATORS,
    "identity.GroupMembership": _OF_OPERATORS,
    "identity.RoleAssignment": _OF_OPERATORS,
    "identity.ApplicationCredential": "A user's own credential, without a quota in Keystone's defaults.",
    "identity.ApplicationCredential_access_rules": "A part of application credentials.",
    "identity.ApplicationCredential_roles": "A part of application credentials.",
    "identity.AccessRule": "A part of application credentials.",
    "identity.Limit": _OF_OPERATORS,
    "identity.ProjectEndpoint": _OF_OPERATORS,
    "identity.ProjectEndpointGroup": _OF_OPERATORS,
    "identity.Credential": "A user's own secret, without a quota in Keystone's defaults.",
    "identity.Trust": "Without a quota in Keystone; Identity bounds the trusts of a user.",
    "identity.TrustRole": "A role of a trust, which is bounded.",
    "identity.KnownAddress": "At most twenty for each user, deleted after 30 days.",
    "identity.SignIn": "One for each session or client of a user; identity bounds and flushes them.",
    "quotas.QuotaLimit": _LEDGER,
    "quotas.QuotaUsage": _LEDGER,
    "quotas.Reservation": _LEDGER,
}
UNPURGED = {
    "quotas.QuotaLimit": "Deleted with its project.",
    "quotas.QuotaUsage": "Deleted with its project.",
    "quotas.Reservation": "Deleted with the resource that it is held for.",
}
