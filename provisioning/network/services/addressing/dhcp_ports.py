"""Ports that the cloud creates for itself. The DHCP port of a network serves DHCP, DNS and metadata, with the same
address on every host.
"""

import uuid
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import UUIDField

from provisioning.common.database.prepared import Prepared, PreparedInsert
from provisioning.network import addressing
from provisioning.network.models import FixedIP, Network, Port, Subnet
from provisioning.network.records.owners import DHCP
from provisioning.network.services.addressing import ipam

MAX_TRIES = 8
"""Attempts to find an unused MAC address or address."""

_INSERT = PreparedInsert(Port)


def follow(network: Network) -> None:
    """Give the network's DHCP port an address on every subnet with DHCP, and release its addresses on other subnets.

    The port is created with the first subnet with DHCP and deleted with the last one; it counts for no quota. On a
    subnet without a free address, the port has no address.
    """
    needed = [subnet for subnet in _SUBNETS(network=network.id) if subnet.enable_dhcp]
    port = _PORT.first(network=network.id)
    if port is None and not needed:
        return
    if not needed:
        Port.objects.filter(network=network, device_owner=DHCP).delete()
        return
    if port is None:
        port = _made(network)
    there = set(_SUBNETS_SERVED(port=port.id))
    others = there - {subnet.id for subnet in needed}
    if others:
        FixedIP.objects.filter(port=port, subnet__in=others).delete()
    for subnet in sorted(needed, key=lambda subnet: (subnet.created_at, subnet.id)):
        if subnet.id not in there:
            _allocate_address(port, subnet)


_SUBNETS = Prepared(lambda network: Subnet.objects.filter(network_id=network), network=UUIDField())
_PORT = Prepared(
    lambda network: Port.objects.filter(network_id=network, device_owner=DHCP).order_by("pk")[:1], network=UUIDField()
)
_SUBNETS_SERVED = Prepared(
    lambda port: FixedIP.objects.filter(port_id=port).values_list("subnet_id", flat=True), port=UUIDField()
)


def _made(network: Network) -> Port:
    return create_own_port(
        network=network, project_id=network.project_id, device_owner=DHCP, device_id=network.id, status="ACTIVE"
    )


def _allocate_address(port: Port, subnet: Subnet) -> None:
    """Allocate an address of the subnet to the port.

    With SLAAC, this is the address that is derived from the port's MAC address, otherwise the subnet's highest free
    address.
    """
    for tried in range(1, MAX_TRIES + 1):
        if ipam.is_stateless(subnet):
            place = ipam.Place(subnet, ipam.stateless_address(subnet.cidr, port.mac_address))
        else:
            address = addressing.highest_free(subnet)
            if address is None:
                return
            place = ipam.Place(subnet, address)
        try:
            with transaction.atomic():
                ipam.allocate(port, place)
        except IntegrityError:
            if tried == MAX_TRIES:
                raise
        else:
            return


def create_own_port(**columns: Any) -> Port:
    """Insert a port without port security and with a random MAC address, in the caller's transaction.

    If the MAC address is in use, another one is tried.
    """
    for tried in range(1, MAX_TRIES + 1):
        try:
            with transaction.atomic():
                port = Port(mac_address=addressing.random_mac(), port_security_enabled=False, **columns)
                _INSERT([port])
                return port
        except IntegrityError:
            if tried == MAX_TRIES:
                raise
    raise AssertionError("unreachable")


def free_mac(network_id: uuid.UUID) -> str:
    """Return a random MAC address that no port of the network uses now."""
    while Port.objects.filter(network=network_id, mac_address=(mac := addressing.random_mac())).exists():
        pass
    return mac
