"""Registers the app with Django."""

from importlib import import_module

from django.apps import AppConfig


class HostsConfig(AppConfig):
    """The hosts' records."""

    name = "provisioning.hosts"
    label = "hosts"

    def ready(self) -> None:
        """Register the app's own jobs, what is kept how long, and what is encrypted."""
        import_module("provisioning.hosts.jobs")
        import_module("provisioning.hosts.retention").register()
        again = import_module("provisioning.hosts.sealing").encrypt_again
        import_module("provisioning.identity.encrypted").register("command", again)
        again = import_module("provisioning.hosts.certificates").encrypt_again
        import_module("provisioning.identity.encrypted").register("authority of hosts", again)
