"""Registers the app with Django."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """The quotas records."""

    name = "provisioning.quotas"
    label = "quotas"
