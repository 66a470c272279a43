"""Registers the app with Django."""

from django.apps import AppConfig


class CpusConfig(AppConfig):
    """Processors of hosts and guests."""

    name = "provisioning.cpus"
    label = "cpus"
