"""Gives addresses to ports, takes them back, and holds them back for a while.

An address that was given back keeps its row without a port: whoever still has it in a cache should not meet another
guest there.  Nobody gets it but who asks for it by name, until ``ADDRESS_HOLD`` seconds have passed; when nothing else
is left, the one that was given back first is given out.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

import netaddr
from django.conf import settings
from django.db import IntegrityError
from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FixedIP, Network, Port, Subnet

STATELESS = ("slaac", "dhcpv6-stateless")
"""IPv6 modes in which a guest makes its address of its MAC address."""


class Place(NamedTuple):
    """An address that a port may take; ``held``: its row is there, without a port."""

    subnet: Subnet
    address: str
    held: bool = False


def is_stateless(subnet: Subnet) -> bool:
    """Whether guests make their addresses of their MAC addresses on this subnet."""
    return subnet.ipv6_address_mode in STATELESS


def free_place(network: Network, subnets: Sequence[Subnet], device_owner: str = "") -> Place:
    """Return the lowest free address of the first subnet that has one, or the one that was given back first.

    Raises OutOfAddressesError for ``networks``.
    """
    usable = [subnet for subnet in subnets if not is_stateless(subnet) and _serves(subnet, device_owner)]
    for subnet in usable:
        address = addressing.lowest_free(subnet)
        if address is not None:
            return Place(subnet, address)
    by_id = {subnet.id: subnet for subnet in usable}
    for row in FixedIP.every.filter(subnet__in=by_id, port=None).order_by("released_at", "id"):
        subnet, number = by_id[row.subnet_id], int(netaddr.IPAddress(row.address))
        pools = addressing.without(addressing.read_pools(subnet.allocation_pools), addressing.reserved_numbers(subnet))
        if any(number in part for part in pools):
            return Place(subnet, row.address, held=True)
    raise OutOfAddressesError(f"No more IP addresses available on network {network.id}.", field="networks")


def named_place(subnets: Iterable[Subnet], text: str) -> Place:
    """Return the address that was asked for, or say why it cannot be had: InvalidInputError for ``networks``."""
    subnet, address = addressing.place_of(subnets, text)
    row = FixedIP.every.filter(subnet=subnet, number=addressing.number_of(subnet, address)).first()
    if row is not None and row.port_id is not None:
        raise InvalidInputError(f"Fixed IP address {text} is already in use.", field="networks")
    return Place(subnet, address, held=row is not None)


def take(port: Port, place: Place) -> FixedIP:
    """Give the address to the port.  Raises IntegrityError when somebody else took it in between."""
    number = addressing.number_of(place.subnet, place.address)
    if place.held:
        rows = FixedIP.every.filter(subnet=place.subnet, number=number)
        if not rows.filter(port=None).update(port=port, released_at=None):
            raise IntegrityError(f"{place.address} was taken in between.")
        return rows.get()
    return FixedIP.objects.create(port=port, subnet=place.subnet, number=number, address=place.address)


def add_stateless(port: Port, subnets: Iterable[Subnet]) -> int:
    """Give the port its own address on every subnet where guests make theirs of the MAC; return how many."""
    mine = [subnet for subnet in subnets if is_stateless(subnet) and _serves(subnet, port.device_owner)]
    for subnet in mine:
        take(port, Place(subnet, stateless_address(subnet.cidr, port.mac_address)))
    return len(mine)


def stateless_address(cidr: str, mac: str) -> str:
    """Return the address that a guest with this MAC address makes for itself (RFC 4291, modified EUI-64)."""
    return str(netaddr.EUI(mac).ipv6(netaddr.IPNetwork(cidr).first))


def give_back(rows: QuerySet[FixedIP]) -> None:
    """Take addresses from their ports, which are about to go, and hold them back."""
    if settings.ADDRESS_HOLD:
        rows.exclude(subnet__ipv6_address_mode__in=STATELESS).update(
            port=None, leased_at=None, released_at=timezone.now()
        )
    else:
        rows.delete()


def forget_released() -> int:
    """Make addresses free that were held back for long enough; return how many."""
    ended = timezone.now() - timedelta(seconds=settings.ADDRESS_HOLD)
    gone, _ = FixedIP.every.filter(Q(released_at__lte=ended) | Q(released_at=None), port=None).delete()
    return gone


def _serves(subnet: Subnet, device_owner: str) -> bool:
    """Whether ports of this owner take addresses from a subnet: ``service_types`` are beginnings of owners."""
    types: list[str] = subnet.service_types
    return not types or any(device_owner.startswith(each) for each in types)
