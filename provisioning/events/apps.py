"""Registers the app with Django."""

from django.apps import AppConfig


class EventsConfig(AppConfig):
    """App of the event log."""

    name = "provisioning.events"
    label = "events"
