"""Servers with root disks in a pool that several hosts share: they move without a copy, between hosts of this pool."""

from compute_agent.contract.moves import LIVE_POOL_TRAIT, ROOT_POOL_TRAIT, root_pool_traits
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host


def is_in_pool(instance: Instance, host: Host | None = None) -> bool:
    """Whether the server's root disk is in a pool instead of a file on its host, as far as the portal knows. ``host``:
    the host that it leaves, instead of the recorded one.
    """
    host = host or instance.host
    return host is not None and ROOT_POOL_TRAIT in host.traits and instance.image_id is not None


def is_live_pool(instance: Instance) -> bool:
    """Whether the server can be migrated live with its root disk, which is in a pool."""
    return bool(shared_pool(instance)) and instance.host is not None and LIVE_POOL_TRAIT in instance.host.traits


def shared_pool(instance: Instance, host: Host | None = None) -> str:
    """Return the trait of the hosts that can acquire the server's root disk without a copy; empty if the disk is not in
    a pool, or if the agent of its host is too old for that.
    """
    host = host or instance.host
    if host is None or not is_in_pool(instance, host):
        return ""
    return next(iter(root_pool_traits(host.traits)), "")
