"""Registers the app with Django, and its work by the clock with the queue."""

from importlib import import_module

from django.apps import AppConfig


class ImagesConfig(AppConfig):
    """The images records."""

    name = "provisioning.images"
    label = "images"

    def ready(self) -> None:
        """Make the periodic work known, and what projects own here."""
        import_module("provisioning.images.jobs")
        import_module("provisioning.images.restored")
        import_module("provisioning.images.ownership").register()
        import_module("provisioning.images.retention").register()
