"""Registers the app with Django, what it owns with identity, and what of it is limited with quotas."""

from importlib import import_module

from django.apps import AppConfig


class NetworkConfig(AppConfig):
    """The network records."""

    name = "provisioning.network"
    label = "network"

    def ready(self) -> None:
        """Make known what projects own here, what quotas limit, what EC2 calls it, and what hosts are told."""
        import_module("provisioning.network.ownership").register()
        import_module("provisioning.network.holdings").register()
        import_module("provisioning.network.ec2_kinds").register()
        import_module("provisioning.network.delivery.handlers")
        import_module("provisioning.network.delivery.jobs")
        import_module("provisioning.network.delivery.restored")
        import_module("provisioning.network.upkeep")
