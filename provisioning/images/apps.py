"""Registers the app with Django."""

from django.apps import AppConfig


class ImagesConfig(AppConfig):
    """The images records."""

    name = "provisioning.images"
    label = "images"
