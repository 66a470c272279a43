"""Registers the app with Django."""

from importlib import import_module

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Registers the app's own jobs as well."""

    name = "provisioning.jobs"
    label = "jobs"
    verbose_name = "Workers"

    def ready(self) -> None:
        import_module("provisioning.jobs.jobs")
