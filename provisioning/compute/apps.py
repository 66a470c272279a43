"""Registers the app with Django."""

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """The compute records."""

    name = "provisioning.compute"
    label = "compute"
