"""Volumes and their snapshots."""

from portal.api.ec2.actions.volumes import attachments, changes, describe, modifications, snapshots, status

__all__ = ["attachments", "changes", "describe", "modifications", "snapshots", "status"]
