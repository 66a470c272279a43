"""Registers the app with Django."""

from django.apps import AppConfig


class DoctorConfig(AppConfig):
    """The doctor and its reports."""

    name = "provisioning.doctor"
    label = "doctor"
