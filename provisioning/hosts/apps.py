"""Registers the app with Django."""

from django.apps import AppConfig


class HostsConfig(AppConfig):
    """The hosts' records."""

    name = "provisioning.hosts"
    label = "hosts"
