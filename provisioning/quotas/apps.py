"""Registers the app with Django."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """Registers the counters and reservations of quotas."""

    name = "provisioning.quotas"
    label = "quotas"
