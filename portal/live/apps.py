"""Registers the live with Django."""

from django.apps import AppConfig


class LiveConfig(AppConfig):
    """Consumers and the agents' door."""

    name = "portal.live"
    label = "live"
