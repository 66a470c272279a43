"""Registers the app with Django."""

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """App of the notification deliveries."""

    name = "provisioning.notifications"
    label = "notifications"
