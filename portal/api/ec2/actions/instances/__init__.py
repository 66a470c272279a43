"""Instances: launch, describe, power and attributes."""

from portal.api.ec2.actions.instances import (
    attributes,
    console,
    describe,
    image_metadata,
    metadata_options,
    power,
    run,
)

__all__ = ["attributes", "console", "describe", "image_metadata", "metadata_options", "power", "run"]
