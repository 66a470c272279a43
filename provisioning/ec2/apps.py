"""Registers the app with Django."""

from django.apps import AppConfig


class Ec2Config(AppConfig):
    """The ids and tags of EC2."""

    name = "provisioning.ec2"
    label = "ec2"
