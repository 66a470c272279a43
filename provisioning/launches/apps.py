"""Registers the app with Django."""

from django.apps import AppConfig


class LaunchesConfig(AppConfig):
    """The records of leases, launch templates and snippets."""

    name = "provisioning.launches"
    label = "launches"
