"""Registers the wiring of the domains with Django."""

from django.apps import AppConfig


class ProvisioningConfig(AppConfig):
    """The last of the apps below the portal: connects them when all models are loaded."""

    name = "provisioning"
    label = "provisioning"

    def ready(self) -> None:
        from provisioning import wiring  # noqa: PLC0415 - it imports models, which Django has loaded only now

        wiring.connect()
