"""Registers the app with Django, and what it keeps for projects with identity."""

from importlib import import_module

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """The quotas records."""

    name = "provisioning.quotas"
    label = "quotas"

    def ready(self) -> None:
        """Make known what goes with a project."""
        import_module("provisioning.quotas.ownership").register()
