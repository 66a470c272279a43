"""Registers the app with Django."""

from django.apps import AppConfig


class NetworkConfig(AppConfig):
    """The network records."""

    name = "provisioning.network"
    label = "network"
