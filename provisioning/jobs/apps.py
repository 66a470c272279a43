"""Registers the app with Django."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """Registers the app's own jobs as well."""

    name = "provisioning.jobs"
    label = "jobs"
    verbose_name = "Workers"
