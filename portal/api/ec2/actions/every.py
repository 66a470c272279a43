"""All actions of EC2: the registry, with every module of actions imported."""

from portal.api.ec2.actions import (
    addresses,
    empty_lists,
    images,
    instances,
    interfaces,
    key_pairs,
    places,
    prefix_lists,
    security_groups,
    tags,
    volumes,
    vpcs,
)
from portal.api.ec2.registry import actions

__all__ = ["MODULES", "actions"]
MODULES = (
    addresses,
    empty_lists,
    images,
    instances,
    interfaces,
    key_pairs,
    places,
    prefix_lists,
    security_groups,
    tags,
    volumes,
    vpcs,
)
