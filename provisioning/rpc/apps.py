"""Registers the app with Django."""

from django.apps import AppConfig


class RpcConfig(AppConfig):
    """The rpc records."""

    name = "provisioning.rpc"
    label = "rpc"
