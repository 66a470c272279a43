"""Registers the app with Django."""

from django.apps import AppConfig


class ComputeConfig(AppConfig):
    """App of the compute records."""

    name = "provisioning.compute"
    label = "compute"
