"""Hosts and servers that cannot move for reasons which are known before anything starts."""

from collections.abc import Mapping
from datetime import datetime

from django.utils import timezone

from provisioning.compute.models import Instance
from provisioning.compute.selectors.root_pools import is_in_pool, is_live_pool, shared_pool
from provisioning.hosts.models import Host

UNCERTIFIED = "It has no valid certificate for connections between hosts."
OLD_IN_POOL = "Its host stores root disks in a pool, and its agent is too old to move them. Upgrade it first."
NOT_LIVE_IN_POOL = "Its root disk is in a pool, and the agent of its host is too old to migrate it while it runs."


def without_certificate() -> Mapping[str, str]:
    """Return host name → reason for each host without a valid certificate, whose connections other hosts refuse. Empty
    in a cloud without certificates, whose hosts are all simulated.
    """
    ends: dict[str, datetime | None] = dict(Host.objects.values_list("name", "certificate__ends_at"))
    now = timezone.now()
    if not any(ends.values()):
        return {}
    return {name: UNCERTIFIED for name, at in ends.items() if at is None or at <= now}


def is_held_in_pool(instance: Instance) -> bool:
    """Whether the server's root disk is in a pool, and the agent of its host cannot leave it to another host."""
    return is_in_pool(instance) and not shared_pool(instance)


def is_held_live(instance: Instance) -> bool:
    """Whether the server's root disk is in a pool from which no running server can be migrated."""
    return is_in_pool(instance) and not is_live_pool(instance)
