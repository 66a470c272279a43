"""Registers the app with Django."""

from django.apps import AppConfig


class VolumesConfig(AppConfig):
    """The records of Block Storage."""

    name = "provisioning.volumes"
    label = "volumes"
