"""Instances: launching, showing, power, attributes."""

from portal.api.ec2.actions.instances import attributes, console, describe, power, run

__all__ = ["attributes", "console", "describe", "power", "run"]
