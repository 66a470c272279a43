"""Registers the app with Django."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """The notifications on their way."""

    name = "provisioning.notifications"
    label = "notifications"
