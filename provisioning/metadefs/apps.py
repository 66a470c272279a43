"""Registers the app with Django, and what projects own here."""

from importlib import import_module

from django.apps import AppConfig


class MetadefsConfig(AppConfig):
    """The records of metadata definitions."""

    name = "provisioning.metadefs"
    label = "metadefs"

    def ready(self) -> None:
        """Say what goes with a project, and what is kept how long."""
        import_module("provisioning.metadefs.ownership").register()
