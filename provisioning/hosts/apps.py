"""Registers the app with Django."""

from django.apps import AppConfig


class HostsConfig(AppConfig):
    """Configuration of the hosts app."""

    name = "provisioning.hosts"
    label = "hosts"
