"""Registers the app with Django."""

from django.apps import AppConfig


class DrainsConfig(AppConfig):
    """Drains of hosts."""

    name = "provisioning.drains"
    label = "drains"
