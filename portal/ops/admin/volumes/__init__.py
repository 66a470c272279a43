"""Block storage: pools, volume types and other offers to projects, and the resources of projects."""

from portal.ops.admin.volumes import copies, offers, pools, types, volumes

__all__ = ["copies", "offers", "pools", "types", "volumes"]
