"""Creates, updates and deletes subnet pools and address scopes, and allocates ranges from a pool's prefixes."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import netaddr
from django.db import transaction

from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.errors import (
    AddressScopeInUseError,
    AddressScopePrefixConflictError,
    AddressScopeUpdateError,
    IllegalSubnetPoolIpVersionAssociationToAddressScopeError,
    IllegalSubnetPoolPrefixBoundsError,
    IllegalSubnetPoolPrefixUpdateError,
    MaxPrefixSubnetAllocationError,
    MinPrefixSubnetAllocationError,
    PrefixVersionMismatchError,
    SubnetAllocationError,
    SubnetPoolDeleteError,
    SubnetPoolQuotaExceededError,
)
from provisioning.network.models import AddressScope, Subnet, SubnetPool
from provisioning.network.records.announcements import announce
from provisioning.network.services.base import records, sharing
from provisioning.quotas.services.ledger import hold

SMALLEST = {4: 8, 6: 64}
"""IP version → default ``min_prefixlen``, as in Neutron."""
LARGEST = {4: 32, 6: 128}


class PoolFields(TypedDict, total=False):
    """Optional fields of a new pool."""

    description: str
    default_prefixlen: int
    min_prefixlen: int
    max_prefixlen: int
    default_quota: int | None
    address_scope: AddressScope | None
    shared: bool
    is_default: bool


@when_broken_off
@transaction.atomic
def create_subnet_pool(
    project_id: uuid.UUID, name: str, prefixes: Sequence[str], **fields: Unpack[PoolFields]
) -> SubnetPool:
    """Create a pool of prefixes, which are merged if they overlap.

    Raises OverQuotaError, and Neutron's errors, each naming the field.
    """
    version = _version(prefixes)
    low = fields.pop("min_prefixlen", SMALLEST[version])
    high = fields.pop("max_prefixlen", LARGEST[version])
    usual = fields.pop("default_prefixlen", low)
    pool = SubnetPool(
        project_id=project_id,
        name=name,
        ip_version=version,
        prefixes=_compact(prefixes),
        min_prefixlen=low,
        max_prefixlen=high,
        default_prefixlen=usual,
        **fields,
    )
    hold(project_id, pool.id, {"subnetpools": 1})
    _check(pool)
    pool.save(force_insert=True)
    sharing.mirror(pool, "subnetpool", access_as_shared=pool.shared)
    announce(pool, "create")
    return pool


@when_broken_off
@transaction.atomic
def update_subnet_pool(pool: SubnetPool, changes: Mapping[str, Any], revision: int | None = None) -> SubnetPool:
    """Change columns of a pool; prefixes cannot be removed.

    Raises the errors of ``create_subnet_pool`` and ``records.lock``.
    """
    row = records.lock(pool, revision)
    values = dict(changes)
    if "prefixes" in values:
        if _version(values["prefixes"]) != row.ip_version:
            raise PrefixVersionMismatchError("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.", field="prefixes")
        values["prefixes"] = _compact(values["prefixes"])
        if netaddr.IPSet(row.prefixes) - netaddr.IPSet(values["prefixes"]):
            msg = "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes."
            raise IllegalSubnetPoolPrefixUpdateError(msg, field="prefixes")
    future = SubnetPool.objects.get(pk=row.pk)
    for name, value in values.items():
        setattr(future, name, value)
    _check(future)
    records.write(row, values)
    announce(row)
    return row


@when_broken_off
@transaction.atomic
def add_prefixes(pool: SubnetPool, prefixes: Sequence[str]) -> SubnetPool:
    """Add prefixes; existing ones are ignored. Raises the errors of ``update_subnet_pool``."""
    row = records.lock(pool)
    return update_subnet_pool(row, {"prefixes": [*row.prefixes, *prefixes]})


@when_broken_off
@transaction.atomic
def remove_prefixes(pool: SubnetPool, prefixes: Sequence[str]) -> SubnetPool:
    """Remove prefixes; unknown ones are ignored.

    Raises IllegalSubnetPoolPrefixUpdateError for a prefix that a subnet uses, InvalidInputError.
    """
    row = records.lock(pool)
    removed = netaddr.IPSet([addressing.parse_range(prefix, field="prefixes").cidr for prefix in prefixes])
    there = netaddr.IPSet(row.prefixes)
    if there.isdisjoint(removed):
        return row
    taken = netaddr.IPSet(row.subnets.values_list("cidr", flat=True))
    if not taken.isdisjoint(removed):
        msg = "Illegal update to prefixes: One or more the prefixes to be removed is in use by a subnet."
        raise IllegalSubnetPoolPrefixUpdateError(msg, field="prefixes")
    records.write(row, {"prefixes": [str(prefix) for prefix in (there - removed).iter_cidrs()]})
    announce(row)
    return row


@when_broken_off
@transaction.atomic
def delete_subnet_pool(pool: SubnetPool, revision: int | None = None) -> None:
    """Delete a pool.  Raises SubnetPoolDeleteError while subnets use it."""
    row = records.lock_to_delete(pool, revision)
    if row.subnets.exists():
        raise SubnetPoolDeleteError("Unable to delete subnet pool: Subnet pool has existing allocations.")
    announce(row, "delete")
    records.remove(row)


def _version(prefixes: Sequence[str]) -> int:
    versions = {addressing.parse_range(prefix, field="prefixes").version for prefix in prefixes}
    if not versions:
        raise InvalidInputError("Empty subnet pool prefix list.", field="prefixes")
    if len(versions) > 1:
        raise PrefixVersionMismatchError("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.", field="prefixes")
    return int(versions.pop())


def _compact(prefixes: Sequence[str]) -> list[str]:
    return [str(prefix.cidr) for prefix in netaddr.IPSet(prefixes).iter_cidrs()]


def _check(pool: SubnetPool) -> None:
    """Reject contradictory prefix lengths, a second default pool, and prefixes that overlap others in the address
    scope.
    """
    bounds = [
        ("min_prefixlen", pool.min_prefixlen, "max_prefixlen", pool.max_prefixlen),
        ("min_prefixlen", pool.min_prefixlen, "default_prefixlen", pool.default_prefixlen),
        ("default_prefixlen", pool.default_prefixlen, "max_prefixlen", pool.max_prefixlen),
        ("max_prefixlen", pool.max_prefixlen, "ip version's longest", LARGEST[pool.ip_version]),
    ]
    for low_name, low, high_name, high in bounds:
        if low > high:
            msg = f"Illegal prefix bounds: {low_name}={low}, {high_name}={high}."
            raise IllegalSubnetPoolPrefixBoundsError(msg, field=low_name)
    same = SubnetPool.objects.filter(is_default=True, ip_version=pool.ip_version).exclude(pk=pool.pk)
    if pool.is_default and same.exists():
        msg = (
            "Invalid input for operation: A default subnetpool for this IP family has already been set. Only one"
            " default may exist per IP family."
        )
        raise InvalidInputError(msg, field="is_default")
    if pool.address_scope is not None:
        _check_scope(pool, pool.address_scope)


def _check_scope(pool: SubnetPool, scope: AddressScope) -> None:
    if scope.ip_version != pool.ip_version:
        msg = (
            f"Illegal subnetpool association: subnetpool {pool.id} cannot associate with address scope {scope.id}"
            f" because subnetpool ip_version is not {scope.ip_version}."
        )
        raise IllegalSubnetPoolIpVersionAssociationToAddressScopeError(msg, field="address_scope_id")
    mine = netaddr.IPSet(pool.prefixes)
    for other in SubnetPool.objects.select_for_update(no_key=True).filter(address_scope=scope).exclude(pk=pool.pk):
        if mine & netaddr.IPSet(other.prefixes):
            msg = "Failed to associate address scope: subnetpools within an address scope must have unique prefixes."
            raise AddressScopePrefixConflictError(msg, field="address_scope_id")


@transaction.atomic
def create_address_scope(
    project_id: uuid.UUID, name: str, ip_version: int, *, shared: bool = False, description: str = ""
) -> AddressScope:
    """Create a scope for pools of one IP version.  Raises OverQuotaError."""
    scope = AddressScope(
        project_id=project_id, name=name, ip_version=ip_version, shared=shared, description=description
    )
    hold(project_id, scope.id, {"address_scopes": 1})
    scope.save(force_insert=True)
    sharing.mirror(scope, "address_scope", access_as_shared=shared)
    announce(scope, "create")
    return scope


@when_broken_off
@transaction.atomic
def update_address_scope(scope: AddressScope, changes: Mapping[str, Any], revision: int | None = None) -> AddressScope:
    """Update a scope. Raises AddressScopeUpdateError if a shared scope would no longer be shared."""
    row = records.lock(scope, revision)
    if row.shared and changes.get("shared") is False:
        msg = f"Unable to update address scope {row.id} : Shared address scope can't be unshared."
        raise AddressScopeUpdateError(msg, field="shared")
    records.write(row, changes)
    announce(row)
    sharing.mirror(row, "address_scope", access_as_shared=row.shared)
    return row


@when_broken_off
@transaction.atomic
def delete_address_scope(scope: AddressScope, revision: int | None = None) -> None:
    """Delete a scope.  Raises AddressScopeInUseError while it has subnet pools."""
    row = records.lock_to_delete(scope, revision)
    if row.subnet_pools.exists():
        msg = f"Unable to complete operation on address scope {row.id}."
        raise AddressScopeInUseError(f"{msg} There are one or more subnet pools in use on the address scope")
    announce(row, "delete")
    records.remove(row)


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
