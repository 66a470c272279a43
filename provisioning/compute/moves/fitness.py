"""Hosts and servers that cannot move for reasons which are known before anything starts."""

from collections.abc import Mapping
from datetime import datetime

from django.utils import timezone

from compute_agent.contract.moves import ROOT_POOL_TRAIT
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host

UNCERTIFIED = "It has no valid certificate for connections between hosts."
IN_POOL = "Its host stores root disks in a pool of Ceph. Servers with such a disk do not move."


def without_certificate() -> Mapping[str, str]:
    """Return host name → reason for each host without a valid certificate, whose connections other hosts refuse. Empty
    in a cloud without certificates, whose hosts are all simulated.
    """
    ends: dict[str, datetime | None] = dict(Host.objects.values_list("name", "certificate__ends_at"))
    now = timezone.now()
    if not any(ends.values()):
        return {}
    return {name: UNCERTIFIED for name, at in ends.items() if at is None or at <= now}


def is_in_pool(instance: Instance) -> bool:
    """Whether the server's root disk is in a pool instead of a file on its host, as far as the portal knows."""
    host = instance.host
    return host is not None and ROOT_POOL_TRAIT in host.traits and not boots_from_volume(instance)
