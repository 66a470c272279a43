"""Images: describe, create from instances and snapshots, share and deregister."""

from portal.api.ec2.actions.images import attributes, changes, describe

__all__ = ["attributes", "changes", "describe"]
