"""Registers the app with Django."""

from django.apps import AppConfig


class BatchesConfig(AppConfig):
    """Actions on many resources."""

    name = "provisioning.batches"
    label = "batches"
