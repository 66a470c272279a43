"""Registers the app with Django."""

from django.apps import AppConfig


class StarredConfig(AppConfig):
    """Starred resources."""

    name = "provisioning.starred"
    label = "starred"
