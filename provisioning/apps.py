"""Registers the wiring of the apps with Django."""

from django.apps import AppConfig


class ProvisioningConfig(AppConfig):
    """Connects all apps of ``provisioning`` when Django has loaded their models, and loads the signing keys; it comes
    after these apps in INSTALLED_APPS.
    """

    name = "provisioning"
    label = "provisioning"

    def ready(self) -> None:
        from provisioning import wiring  # noqa: PLC0415 - it imports models, which Django has loaded only now
        from provisioning.identity.encryption import signing_keys  # noqa: PLC0415

        wiring.connect()
        signing_keys.load()
