"""Registers the app with Django, and its jobs with the queue."""

from importlib import import_module

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    """The notifications on their way."""

    name = "provisioning.notifications"
    label = "notifications"

    def ready(self) -> None:
        import_module("provisioning.notifications.jobs")
