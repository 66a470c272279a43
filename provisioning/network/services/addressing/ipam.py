"""Allocates addresses to ports, releases them, and holds released addresses for a while.

A released address keeps its row without a port, because clients that have it in a cache should not reach another guest.
For ``ADDRESS_HOLD`` seconds it is only allocated to a request for this address, or when no other address is left; then
the address that was released first is allocated.
"""

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import netaddr
from django.conf import settings
from django.db import IntegrityError
from django.db.models import DateTimeField, Q, QuerySet
from django.utils import timezone

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import PreparedDelete, PreparedInsert, PreparedUpdate
from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FixedIP, Network, Port, Subnet

STATELESS = ("slaac", "dhcpv6-stateless")
"""IPv6 modes in which a guest derives its address from its MAC address."""


class Place(NamedTuple):
    """An address that can be allocated to a port; ``held``: it was released and still has a row without a port."""

    subnet: Subnet
    address: str
    held: bool = False


def is_stateless(subnet: Subnet) -> bool:
    """Whether guests derive their addresses from their MAC addresses on this subnet."""
    return subnet.ipv6_address_mode in STATELESS


def free_place(network: Network, subnets: Sequence[Subnet], device_owner: str = "") -> Place:
    """Return the lowest free address of the first subnet that has a free address; if no subnet has one, the held
    address that was released first. Raises OutOfAddressesError for ``networks``.
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
    message = f"No more IP addresses available on network {network.id}."  # quoted: Neutron
    raise OutOfAddressesError(message, field="networks")


def named_place(subnets: Iterable[Subnet], text: str) -> Place:
    """Return the requested address. Raises InvalidInputError for ``networks`` if it cannot be allocated."""
    subnet, address = addressing.place_of(subnets, text)
    row = FixedIP.every.filter(subnet=subnet, number=addressing.number_of(subnet, address)).first()
    if row is not None and row.port_id is not None:
        raise InvalidInputError(f"Fixed IP address {text} is already in use.", field="networks")
    return Place(subnet, address, held=row is not None)


def allocate(port: Port, place: Place) -> FixedIP:
    """Allocate the address to the port.  Raises IntegrityError if it was allocated concurrently."""
    number = addressing.number_of(place.subnet, place.address)
    if place.held:
        rows = FixedIP.every.filter(subnet=place.subnet, number=number)
        if not rows.filter(port=None).update(port=port, released_at=None):
            raise IntegrityError(f"{place.address} was allocated concurrently.")
        return rows.get()
    row = FixedIP(port=port, subnet=place.subnet, number=number, address=place.address)
    ((row.pk,),) = _TAKE([row])
    return row


_TAKE = PreparedInsert(FixedIP, returning=("id",))


def add_stateless(port: Port, subnets: Iterable[Subnet]) -> int:
    """Allocate the port's derived address on every subnet for which ``is_stateless`` is true; return their number."""
    mine = [subnet for subnet in subnets if is_stateless(subnet) and _serves(subnet, port.device_owner)]
    for subnet in mine:
        allocate(port, Place(subnet, stateless_address(subnet.cidr, port.mac_address)))
    return len(mine)


def stateless_address(cidr: str, mac: str) -> str:
    """Return the address that a guest with this MAC address derives (RFC 4291, modified EUI-64)."""
    return str(netaddr.EUI(mac).ipv6(netaddr.IPNetwork(cidr).first))


def release(rows: QuerySet[FixedIP]) -> None:
    """Release addresses of ports that are about to be deleted, and hold the addresses for ``ADDRESS_HOLD`` seconds."""
    if settings.ADDRESS_HOLD:
        rows.exclude(subnet__ipv6_address_mode__in=STATELESS).update(**_released(timezone.now()))
    else:
        rows.delete()


def release_of_ports(port_ids: Collection[uuid.UUID]) -> None:
    """Release the addresses of these ports and hold them, like ``release``."""
    if settings.ADDRESS_HOLD:
        _GIVE_BACK(ports=port_ids, now=timezone.now())
    _FREE(ports=port_ids)


_GIVE_BACK = PreparedUpdate(
    lambda ports, now: (
        FixedIP.objects.filter(Among("port_id", ports)).exclude(subnet__ipv6_address_mode__in=STATELESS),
        _released(now),
    ),
    ports=Ids(),
    now=DateTimeField(),
)
_FREE = PreparedDelete(lambda ports: FixedIP.objects.filter(Among("port_id", ports)), ports=Ids())


def _released(now: Any) -> dict[str, Any]:
    """Return the values of the columns of an address that is held for a while."""
    return {"port": None, "leased_at": None, "released_at": now}


def forget_released() -> int:
    """Free addresses that were held for long enough; return their number."""
    ended = timezone.now() - timedelta(seconds=settings.ADDRESS_HOLD)
    gone, _ = FixedIP.every.filter(Q(released_at__lte=ended) | Q(released_at=None), port=None).delete()
    return gone


def _serves(subnet: Subnet, device_owner: str) -> bool:
    """Whether ports with this device owner get addresses of a subnet: its ``service_types`` are prefixes of owners."""
    types: list[str] = subnet.service_types
    return not types or any(device_owner.startswith(each) for each in types)
