"""Registers the dashboard with Django."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages and their template tags."""

    name = "portal.dashboard"
    label = "dashboard"
