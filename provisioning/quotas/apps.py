"""Registers the app with Django, its job with the queue, and the records below it that no quota limits."""

from importlib import import_module

from django.apps import AppConfig

from provisioning.quotas import registry

_NO_COPIES = "An operator's own record; the projects it names hold nothing by it."


class QuotasConfig(AppConfig):
    """The quotas records."""

    name = "provisioning.quotas"
    label = "quotas"

    def ready(self) -> None:
        """Make the check known, let the ledger go with its project or user, and say what is not limited."""
        import_module("provisioning.quotas.jobs")
        forget = import_module("provisioning.quotas.services").forget
        ownership = import_module("provisioning.identity.ownership")
        ownership.register("quotas", None, forget)
        ownership.register_of_users("quotas", forget)
        registry.leave_free(
            {
                "identity.ProjectTag": "At most 80 of a project, as the API says; only those who manage projects add.",
                "identity.GroupMembership": _NO_COPIES,
                "identity.RoleAssignment": _NO_COPIES,
                "identity.ApplicationCredential": "A person's own; bounded by identity.",
                "identity.AccessRule": "Parts of application credentials.",
                "identity.SignIn": "One for each session or client of a user; bounded and flushed by identity.",
                "identity.Credential": "A person's own secrets; bounded by identity.",
                "identity.User": "Made by those who manage a domain; its default project holds nothing by it.",
                "identity.Project": "What quotas are of; made by those who manage a domain.",
                "quotas.QuotaLimit": "The limits themselves.",
                "quotas.QuotaUsage": "The ledger itself.",
                "quotas.Reservation": "The ledger itself.",
            }
        )
