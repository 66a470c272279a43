"""Instances: launch, describe, power and attributes."""

from portal.api.ec2.actions.instances import attributes, console, describe, metadata_options, power, run

__all__ = ["attributes", "console", "describe", "metadata_options", "power", "run"]
