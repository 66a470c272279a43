"""Registers the doctor with Django and its job with the queue."""

from importlib import import_module

from django.apps import AppConfig


class DoctorConfig(AppConfig):
    """The doctor and its reports."""

    name = "provisioning.doctor"
    label = "doctor"

    def ready(self) -> None:
        """Register the checks, and the job with the queue."""
        import_module("provisioning.doctor.checks")
        import_module("provisioning.doctor.jobs")
