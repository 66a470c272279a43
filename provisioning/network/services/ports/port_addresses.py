"""Allocates the requested addresses of a port, each specified by its subnet, its address, or both."""

from collections.abc import Mapping, Sequence

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.errors import (
    AllocationOnAutoAddressSubnetError,
    InvalidIpForNetworkError,
    InvalidIpForSubnetError,
    IpAddressGenerationFailureError,
    OutOfAddressesError,
)
from provisioning.network.models import FixedIP, Port, Subnet
from provisioning.network.records.owners import CLOUD
from provisioning.network.services.addressing import addresses, ipam
from provisioning.network.services.floating_ips.floating_ips import leave_addresses
from provisioning.network.services.ports.ports import addresses_held, quota_owner
from provisioning.quotas.services import sizes

FixedIps = Sequence[Mapping[str, object]]
"""``{"subnet_id": UUID, "ip_address": text}``, one key or both."""
MOST = 5
"""Limit of a port's addresses, Neutron's ``max_fixed_ips_per_port``."""


def allocate_requested(port: Port, subnets: Sequence[Subnet], requested: FixedIps) -> None:
    """Allocate these addresses to a port, specific ones first.

    Raises InvalidInputError, InvalidIpForNetworkError, InvalidIpForSubnetError, AllocationOnAutoAddressSubnetError,
    IpAddressInUseError, IpAddressGenerationFailureError.
    """
    if len(requested) > MOST:
        raise _invalid("Exceeded maximum amount of fixed ips per port.")
    for entry in sorted(requested, key=lambda each: "ip_address" not in each):
        chosen = _chosen(port, subnets, entry)
        address = entry.get("ip_address")
        if address is not None:
            read = addressing.parse_address(address, field="fixed_ips")
            _allocate_named(port, chosen, str(read), named="subnet_id" in entry)
        elif not ipam.is_stateless(chosen[0]):
            try:
                addresses.allocate_free(port, chosen)
            except OutOfAddressesError as error:
                raise IpAddressGenerationFailureError(error.message, field="fixed_ips") from error


def replace(port: Port, subnets: Sequence[Subnet], requested: FixedIps) -> bool:
    """Replace a port's addresses, except those that its guest derives; return whether any changed.

    Requested addresses that the port already has are kept. Raises the errors of ``allocate_requested``, and
    OverQuotaError.
    """
    by_id = {subnet.id: subnet for subnet in subnets}
    mine = [row for row in port.fixed_ips.order_by("id") if not ipam.is_stateless(by_id[row.subnet_id])]
    missing: list[Mapping[str, object]] = []
    kept: list[FixedIP] = []
    for entry in sorted(requested, key=lambda each: "ip_address" not in each):
        row = next((row for row in mine if row not in kept and _matches(entry, row)), None)
        if row is None:
            missing.append(entry)
        else:
            kept.append(row)
    if len(requested) > MOST:
        raise _invalid("Exceeded maximum amount of fixed ips per port.")
    gone = [row for row in mine if row not in kept]
    before = {row.pk for row in port.fixed_ips.all()}
    leave_addresses(port, [row.address for row in gone])
    ipam.release(FixedIP.objects.filter(pk__in=[row.pk for row in gone]))
    allocate_requested(port, subnets, missing)
    hold_addresses(port)
    return before != set(FixedIP.objects.filter(port=port).values_list("pk", flat=True))


def remake_stateless(port: Port, subnets: Sequence[Subnet]) -> None:
    """Replace the addresses that a port's guest derives, after its MAC address has changed."""
    FixedIP.objects.filter(port=port, subnet__ipv6_address_mode__in=ipam.STATELESS).delete()
    ipam.add_stateless(port, subnets)


def hold_addresses(port: Port, *, refuse: bool = True) -> None:
    """Set the quota usage of a port's owner, if any, to its current number of addresses.

    Raises OverQuotaError, unless ``refuse`` is False.
    """
    if port.device_owner.startswith(CLOUD):
        return
    many = {"fixed_ips": addresses_held(port)}
    sizes.grow(port.project_id, quota_owner(port), many, refuse=refuse)
    sizes.shrink(quota_owner(port), many)


def _matches(entry: Mapping[str, object], row: FixedIP) -> bool:
    return (
        entry.get("subnet_id", row.subnet_id) == row.subnet_id and entry.get("ip_address", row.address) == row.address
    )


def _chosen(port: Port, subnets: Sequence[Subnet], entry: Mapping[str, object]) -> Sequence[Subnet]:
    key = entry.get("subnet_id")
    if key is None:
        if "ip_address" not in entry:
            raise _invalid("IP allocation requires subnet_id or ip_address.")
        return subnets
    result = [subnet for subnet in subnets if subnet.id == key]
    if not result:
        msg = f"Failed to create port on network {port.network_id}, because fixed_ips included invalid subnet {key}."
        raise _invalid(msg)
    return result


def _allocate_named(port: Port, subnets: Sequence[Subnet], address: str, *, named: bool) -> None:
    subnet = next((each for each in subnets if addresses.contains(each, address)), None)
    if subnet is not None and ipam.is_stateless(subnet):
        if address == ipam.stateless_address(subnet.cidr, port.mac_address):
            return
        msg = (
            f"IPv6 address {address} can not be directly assigned to a port on subnet {subnet.id} as the subnet is "
            "configured for automatic addresses"
        )
        raise AllocationOnAutoAddressSubnetError(msg, field="fixed_ips")
    if subnet is None or (address != subnet.gateway_ip and addressing.is_reserved(subnet, address)):
        if named:
            msg = f"IP address {address} is not a valid IP for the specified subnet."
            raise InvalidIpForSubnetError(msg, field="fixed_ips")
        msg = f"IP address {address} is not a valid IP for any of the subnets on the specified network."
        raise InvalidIpForNetworkError(msg, field="fixed_ips")
    addresses.allocate(port, subnet, address)


def _invalid(reason: str) -> InvalidInputError:
    return InvalidInputError(f"Invalid input for operation: {reason}", field="fixed_ips")
