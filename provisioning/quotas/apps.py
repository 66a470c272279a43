"""Registers the app with Django."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """App of the quotas."""

    name = "provisioning.quotas"
    label = "quotas"
