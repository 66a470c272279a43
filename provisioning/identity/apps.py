"""Registers the app with Django."""

from django.apps import AppConfig


class IdentityConfig(AppConfig):
    """The identity records."""

    name = "provisioning.identity"
    label = "identity"
