"""Registers the app with Django, and what it owns with identity."""

from importlib import import_module

from django.apps import AppConfig


class NetworkConfig(AppConfig):
    """The network records."""

    name = "provisioning.network"
    label = "network"

    def ready(self) -> None:
        """Make known what projects own here."""
        import_module("provisioning.network.ownership").register()
