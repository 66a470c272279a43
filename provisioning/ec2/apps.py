"""Registers the app with Django, and what goes with a project."""

from importlib import import_module

from django.apps import AppConfig


class Ec2Config(AppConfig):
    """The ids and tags of EC2."""

    name = "provisioning.ec2"
    label = "ec2"

    def ready(self) -> None:
        """Say what is kept how long and what goes with a project."""
        import_module("provisioning.ec2.retention").register()
