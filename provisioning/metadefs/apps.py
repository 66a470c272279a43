"""Registers the app with Django."""

from django.apps import AppConfig


class MetadefsConfig(AppConfig):
    """The records of metadata definitions."""

    name = "provisioning.metadefs"
    label = "metadefs"
