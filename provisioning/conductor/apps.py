"""Registers the app with Django, and the conductor's jobs with the queue."""

from importlib import import_module

from django.apps import AppConfig


class ConductorConfig(AppConfig):
    """The line a launch runs along, and the doctor with its reports."""

    name = "provisioning.conductor"
    label = "conductor"

    def ready(self) -> None:
        """Make the jobs known: whoever casts one must be able to name it."""
        import_module("provisioning.conductor.schedule")
        import_module("provisioning.conductor.reaper")
        import_module("provisioning.conductor.reclaim")
        import_module("provisioning.conductor.offload")
        import_module("provisioning.conductor.confirm_resizes")
        import_module("provisioning.conductor.examine")
