"""Addresses of ports that the cloud creates for itself, such as those of routers and floating IPs."""

from collections.abc import Sequence

import netaddr
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from compute_agent.contract.network import NETWORK
from provisioning.network import addressing
from provisioning.network.errors import IpAddressInUseError, OutOfAddressesError
from provisioning.network.models import FixedIP, Port, Subnet
from provisioning.network.records.marks import mark
from provisioning.network.services.addressing import ipam

MAX_TRIES = 8


def allocate(port: Port, subnet: Subnet, address: str) -> FixedIP:
    """Allocate this address to a port, even a reserved one such as a gateway's.  Raises IpAddressInUseError."""
    row = FixedIP(port=port, subnet=subnet, address=address, number=addressing.number_of(subnet, address))
    try:
        with transaction.atomic():
            FixedIP.every.filter(subnet=subnet, number=row.number, port=None).delete()
            row.save(force_insert=True)
    except IntegrityError:
        msg = f"Unable to complete operation for network {subnet.network_id}. The IP address {address} is in use."
        raise IpAddressInUseError(msg, field="fixed_ips") from None
    return row


def allocate_free(port: Port, subnets: Sequence[Subnet]) -> FixedIP:
    """Allocate the lowest free address of the first subnet that has one.  Raises OutOfAddressesError."""
    for _ in range(MAX_TRIES):
        place = ipam.free_place(port.network, subnets, port.device_owner)
        try:
            with transaction.atomic():
                return ipam.allocate(port, place)
        except IntegrityError:
            continue
    raise _none_left(port)


def _none_left(port: Port) -> OutOfAddressesError:
    message = f"No more IP addresses available on network {port.network_id}."  # quoted: Neutron
    return OutOfAddressesError(message, field="network_id")


def delete_ports(ports: QuerySet[Port]) -> int:
    """Delete ports that the cloud created and no longer uses; return their number.

    Their addresses are held for a while, like those of other ports.
    """
    rows = list(ports.select_for_update(of=("self",)))
    ipam.release(FixedIP.objects.filter(port__in=rows))
    Port.objects.filter(id__in=[row.id for row in rows]).delete()
    mark(NETWORK, {row.network_id for row in rows})
    return len(rows)


def contains(subnet: Subnet, address: str) -> bool:
    """Whether a subnet's range contains an address."""
    return netaddr.IPAddress(address) in netaddr.IPNetwork(subnet.cidr)
