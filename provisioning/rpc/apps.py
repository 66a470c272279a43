"""Registers the app with Django."""

from importlib import import_module

from django.apps import AppConfig


class RpcConfig(AppConfig):
    """The rpc records."""

    name = "provisioning.rpc"
    label = "rpc"
    verbose_name = "Hosts' commands"

    def ready(self) -> None:
        """Register the app's own jobs."""
        import_module("provisioning.rpc.jobs")
