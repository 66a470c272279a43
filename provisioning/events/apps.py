"""Registers the app with Django."""

from django.apps import AppConfig


class EventsConfig(AppConfig):
    """The events records."""

    name = "provisioning.events"
    label = "events"
