"""Registers the app with Django, what it owns with identity, and what of it is limited with quotas."""

from importlib import import_module

from django.apps import AppConfig


class VolumesConfig(AppConfig):
    """The records of Block Storage."""

    name = "provisioning.volumes"
    label = "volumes"

    def ready(self) -> None:
        """Make known what projects own here, what quotas limit, what is encrypted, and what hosts are told."""
        import_module("provisioning.volumes.deadlines").check()
        import_module("provisioning.volumes.ownership").register()
        import_module("provisioning.volumes.holdings").register()
        again = import_module("provisioning.volumes.keys").encrypt_again
        import_module("provisioning.identity.encrypted").register("key of a volume", again)
        import_module("provisioning.volumes.services")
        import_module("provisioning.volumes.volume_subjects")
        import_module("provisioning.volumes.upkeep")
        import_module("provisioning.volumes.restored")
        import_module("provisioning.volumes.backup_reports")
        import_module("provisioning.volumes.backup_jobs")
