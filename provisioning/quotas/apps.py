"""Registers the app with Django, its job with the queue, and what goes with a project with identity."""

from importlib import import_module

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """The quotas records."""

    name = "provisioning.quotas"
    label = "quotas"

    def ready(self) -> None:
        """Make the check known, and what quotas own of projects and users."""
        import_module("provisioning.quotas.jobs")
        import_module("provisioning.quotas.project_resources").register()
