"""Registers the app with Django."""

from django.apps import AppConfig


class ImagesConfig(AppConfig):
    """The app for images."""

    name = "provisioning.images"
    label = "images"
