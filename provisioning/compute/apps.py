"""Registers the app with Django, what it owns with identity, and what of it is limited with quotas."""

from importlib import import_module

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """The compute records."""

    name = "provisioning.compute"
    label = "compute"

    def ready(self) -> None:
        """Make known what projects own here, what quotas limit, and what is done by the clock."""
        import_module("provisioning.compute.ownership").register()
        import_module("provisioning.compute.holdings").register()
        import_module("provisioning.compute.image_uses").register()
        import_module("provisioning.compute.retention").register()
        again = import_module("provisioning.compute.passwords").encrypt_again
        import_module("provisioning.identity.encrypted").register("server password", again)
        import_module("provisioning.compute.wiring")
        import_module("provisioning.compute.deadlines").check()
