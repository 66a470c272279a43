"""Block storage: pools, what operators offer, and what projects have."""

from portal.ops.admin.volumes import copies, offers, pools, types, volumes

__all__ = ["copies", "offers", "pools", "types", "volumes"]
