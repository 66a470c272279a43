"""The admin's pages, one module for each part of the cloud; Django finds them here."""

from portal.ops.admin import hosts, identity, images, instances, networks, quotas, sizes

__all__ = ["hosts", "identity", "images", "instances", "networks", "quotas", "sizes"]
