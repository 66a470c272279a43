"""Registers the app with Django."""

from django.apps import AppConfig


class NetworkConfig(AppConfig):
    """Configuration of the network app."""

    name = "provisioning.network"
    label = "network"
