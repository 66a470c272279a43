"""Registers the app with Django."""

from django.apps import AppConfig


class CatalogueConfig(AppConfig):
    """The catalogue of cloud images."""

    name = "provisioning.catalogue"
    label = "catalogue"
