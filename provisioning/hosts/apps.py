"""Registers the app with Django."""

from importlib import import_module

from django.apps import AppConfig


class HostsConfig(AppConfig):
    """The hosts' records."""

    name = "provisioning.hosts"
    label = "hosts"

    def ready(self) -> None:
        """Register the app's own jobs, and what is kept how long."""
        import_module("provisioning.hosts.jobs")
        import_module("provisioning.hosts.retention").register()
