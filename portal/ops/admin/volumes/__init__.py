"""Block storage: pools, offers of operators, and resources of projects."""

from portal.ops.admin.volumes import copies, offers, pools, types, volumes

__all__ = ["copies", "offers", "pools", "types", "volumes"]
