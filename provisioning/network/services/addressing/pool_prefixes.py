"""Allocates ranges of subnets from the prefixes of a subnet pool."""

import uuid

import netaddr

from provisioning.network.errors import (
    MaxPrefixSubnetAllocationError,
    MinPrefixSubnetAllocationError,
    SubnetAllocationError,
    SubnetPoolQuotaExceededError,
)
from provisioning.network.models import Subnet, SubnetPool


def allocate(
    pool: SubnetPool, project_id: uuid.UUID, requested: netaddr.IPNetwork | None, prefixlen: int | None
) -> netaddr.IPNetwork:
    """Return the requested range, or the first free one of this length (by default the pool's default length).

    The caller has locked the pool. Raises SubnetAllocationError if no such range is free, Min- and
    MaxPrefixSubnetAllocationError for a length that the pool does not allow, SubnetPoolQuotaExceededError.
    """
    length = (
        requested.prefixlen if requested is not None else prefixlen if prefixlen is not None else pool.default_prefixlen
    )
    _check_length(pool, length)
    taken = [netaddr.IPNetwork(cidr) for cidr in Subnet.objects.filter(subnet_pool=pool).values_list("cidr", flat=True)]
    _check_quota(pool, project_id, length)
    free = netaddr.IPSet(pool.prefixes) - netaddr.IPSet(taken)
    if requested is not None:
        if requested.version != pool.ip_version or netaddr.IPSet([requested]) - free:
            reason = "Cannot allocate requested subnet from the available set of prefixes"
            raise SubnetAllocationError(f"Failed to allocate subnet: {reason}.", field="cidr")
        return requested
    for prefix in sorted(free.iter_cidrs(), key=lambda prefix: (-prefix.prefixlen, prefix.first)):
        if prefix.prefixlen <= length:
            return netaddr.IPNetwork((prefix.first, length), version=pool.ip_version)
    reason = f"Insufficient prefix space to allocate subnet size /{length}"
    raise SubnetAllocationError(f"Failed to allocate subnet: {reason}.", field="prefixlen")


def _check_length(pool: SubnetPool, length: int) -> None:
    sentence = f"Unable to allocate subnet with prefix length {length},"
    if length < pool.min_prefixlen:
        msg = f"{sentence} minimum allowed prefix is {pool.min_prefixlen}."
        raise MinPrefixSubnetAllocationError(msg, field="prefixlen")
    if length > pool.max_prefixlen:
        msg = f"{sentence} maximum allowed prefix is {pool.max_prefixlen}."
        raise MaxPrefixSubnetAllocationError(msg, field="prefixlen")


def _check_quota(pool: SubnetPool, project_id: uuid.UUID, length: int) -> None:
    """Reject ranges beyond the pool's quota of one project: IPv4 addresses, or /64s of IPv6."""
    if pool.default_quota is None:
        return
    mine = Subnet.objects.filter(subnet_pool=pool, project_id=project_id).values_list("cidr", flat=True)
    lengths = [length, *(netaddr.IPNetwork(cidr).prefixlen for cidr in mine)]
    whole = 32 if pool.ip_version == 4 else 64
    if sum(1 << max(whole - each, 0) for each in lengths) > pool.default_quota:
        raise SubnetPoolQuotaExceededError("Per-tenant subnet pool prefix quota exceeded.", field="prefixlen")
