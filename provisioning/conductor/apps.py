"""Registers the app with Django."""

from django.apps import AppConfig


class ConductorConfig(AppConfig):
    """The conductor records."""

    name = "provisioning.conductor"
    label = "conductor"
