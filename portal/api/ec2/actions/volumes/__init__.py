"""Volumes and their snapshots."""

from portal.api.ec2.actions.volumes import attachments, changes, modifications, snapshots

__all__ = ["attachments", "changes", "modifications", "snapshots"]
