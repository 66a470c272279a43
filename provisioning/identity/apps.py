"""Registers the app with Django, and what Django checks before a command runs."""

from importlib import import_module

from django.apps import AppConfig
from django.core import checks

from provisioning.identity.checks import check_policy_file
from provisioning.jobs import registry


class IdentityConfig(AppConfig):
    """The identity records."""

    name = "provisioning.identity"
    label = "identity"

    def ready(self) -> None:
        """Let Django look at the operator's rules, and make known the app's jobs, and what is kept and encrypted."""
        checks.register(check_policy_file)
        import_module("provisioning.identity.jobs")
        registry.start_checks.append(import_module("provisioning.identity.key_records").agree_if_possible)
        import_module("provisioning.identity.retention").register()
        services = import_module("provisioning.identity.services.credentials")
        import_module("provisioning.identity.encrypted").register("credential", services.encrypt_again)
