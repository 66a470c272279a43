"""Registers the app with Django."""

from django.apps import AppConfig


class MeasuresConfig(AppConfig):
    """Configuration of the measures app."""

    name = "provisioning.measures"
    label = "measures"
