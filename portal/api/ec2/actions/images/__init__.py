"""Images: shown, made of instances and snapshots, shared and ended."""

from portal.api.ec2.actions.images import attributes, changes, describe

__all__ = ["attributes", "changes", "describe"]
