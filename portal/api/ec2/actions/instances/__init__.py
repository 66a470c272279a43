"""Instances: launch, describe, power and attributes."""

from portal.api.ec2.actions.instances import attributes, describe, metadata, power, run

__all__ = ["attributes", "describe", "metadata", "power", "run"]
