"""Registers the app with Django, and what it owns with identity."""

from importlib import import_module

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """The compute records."""

    name = "provisioning.compute"
    label = "compute"

    def ready(self) -> None:
        """Make known what projects own here."""
        import_module("provisioning.compute.ownership").register()
