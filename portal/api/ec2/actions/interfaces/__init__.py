"""Network interfaces: ports that are attached to instances or can be."""

from portal.api.ec2.actions.interfaces import attributes, create, describe

__all__ = ["attributes", "create", "describe"]
