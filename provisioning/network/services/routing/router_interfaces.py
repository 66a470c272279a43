"""Interfaces of routers: ports that usually have the subnet's gateway address."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models import F

from compute_agent.contract.network import NETWORK, ROUTER
from provisioning.common.database.retry import when_broken_off
from provisioning.network import addressing
from provisioning.network.errors import (
    BadRequestError,
    InvalidIpForSubnetError,
    PortInUseError,
    RouterInterfaceInUseByFloatingIPError,
    RouterInterfaceInUseByRouteError,
    RouterInterfaceNotFoundError,
    RouterInterfaceNotFoundForSubnetError,
    ServicePortInUseError,
)
from provisioning.network.models import FloatingIP, Port, PortForwarding, Router, Subnet
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.services.addressing import addresses
from provisioning.network.services.addressing.dhcp_ports import create_own_port
from provisioning.network.services.base import records
from provisioning.network.services.routing.routers import check_overlaps, legs_of
from provisioning.quotas.services import ledger


@dataclass(frozen=True, slots=True)
class RouterInterface:
    """An added or removed interface, with its subnet."""

    router: Router
    port: Port
    subnet: Subnet


@when_broken_off
@transaction.atomic
def add_interface_by_subnet(router: Router, subnet: Subnet, *, anywhere: bool = False) -> RouterInterface:
    """Connect a router to a subnet with its gateway address; ``anywhere``: also on another project's network.

    IPv6 subnets of one network share a port.  Raises BadRequestError, IpAddressInUseError, InvalidIpForSubnetError if
    the gateway is outside the range.
    """
    router, subnet = records.lock(router), records.lock(subnet)
    if subnet.gateway_ip is None:
        raise _bad("Subnet for router interface must have a gateway IP")
    if not addresses.contains(subnet, subnet.gateway_ip):
        msg = f"IP address {subnet.gateway_ip} is not a valid IP for the specified subnet."
        raise InvalidIpForSubnetError(msg, field="subnet_id")
    _check_gateway(router, subnet, anywhere=anywhere)
    _check_new(router, [subnet])
    port = _port_to_share(router, subnet) if subnet.ip_version == 6 else None
    if port is None:
        port = create_own_port(
            network_id=subnet.network_id,
            project_id=router.project_id,
            device_owner=ROUTER_INTERFACE,
            device_id=router.id,
            status="ACTIVE",
        )
    addresses.allocate(port, subnet, subnet.gateway_ip)
    _changed(router, port)
    return RouterInterface(router, port, subnet)


@when_broken_off
@transaction.atomic
def add_interface_by_port(router: Router, port: Port, *, anywhere: bool = False) -> RouterInterface:
    """Connect a router by a port that no device uses; the port then counts for no quota.

    ``anywhere``: also with the gateway address of another project's network.  Raises PortInUseError, BadRequestError.
    """
    router, port = records.lock(router), records.lock(port)
    if port.device_id is not None or port.device_text:
        msg = (
            f"Unable to complete operation on port {port.id} for network {port.network_id}. "
            f"Port already has an attached device {port.device_id or port.device_text}."
        )
        raise PortInUseError(msg, field="port_id")
    rows = list(port.fixed_ips.select_related("subnet__network").order_by("id"))
    subnets = [row.subnet for row in rows]
    if not subnets:
        raise _bad("Router port must have at least one fixed IP")
    if len([subnet for subnet in subnets if subnet.ip_version == 4]) > 1:
        raise _bad("Cannot have multiple IPv4 subnets on router port")
    for row in rows:
        gateway = row.subnet.gateway_ip
        if gateway is not None and row.number == addressing.number_of(row.subnet, gateway):
            _check_gateway(router, row.subnet, anywhere=anywhere)
    _check_new(router, subnets)
    ledger.release(port.id)
    port.security_groups.clear()
    changes = {"device_id": router.id, "device_owner": ROUTER_INTERFACE, "status": "ACTIVE"}
    records.write(port, {**changes, "port_security_enabled": False, "allowed_address_pairs": []})
    _changed(router, port)
    return RouterInterface(router, port, subnets[0])


@when_broken_off
@transaction.atomic
def remove_interface_by_port(router: Router, port_id: str, subnet_id: str | None = None) -> RouterInterface:
    """Remove an interface of a router, with its port.

    Raises RouterInterfaceNotFoundError, BadRequestError for a port that is not on ``subnet_id``, and the errors of
    ``remove_interface_by_subnet``.
    """
    router = records.lock(router)
    port = legs_of(router).filter(id=port_id).first()
    if port is None:
        msg = f"Router {router.id} does not have an interface with id {port_id}"
        raise RouterInterfaceNotFoundError(msg, field="port_id")
    subnets = [row.subnet for row in port.fixed_ips.select_related("subnet").order_by("id")]
    if subnet_id is not None and subnet_id not in {str(subnet.id) for subnet in subnets}:
        raise _bad(f"subnet_id {subnet_id} is not on port {port_id}")
    for subnet in subnets:
        _check_unused(router, subnet)
    _delete(port)
    _changed(router, port)
    return RouterInterface(router, port, subnets[0])


@when_broken_off
@transaction.atomic
def remove_interface_by_subnet(router: Router, subnet: Subnet) -> RouterInterface:
    """Disconnect a router from a subnet.

    Raises RouterInterfaceNotFoundForSubnetError, RouterInterfaceInUseByFloatingIPError,
    RouterInterfaceInUseByRouteError.
    """
    router = records.lock(router)
    port = legs_of(router).filter(fixed_ips__subnet=subnet).first()
    if port is None:
        msg = f"Router {router.id} has no interface on subnet {subnet.id}"
        raise RouterInterfaceNotFoundForSubnetError(msg, field="subnet_id")
    _check_unused(router, subnet)
    if port.fixed_ips.exclude(subnet=subnet).exists():
        port.fixed_ips.filter(subnet=subnet).delete()
    else:
        _delete(port)
    _changed(router, port)
    return RouterInterface(router, port, subnet)


def follow_addresses(port: Port, before: Collection[uuid.UUID]) -> None:
    """Mark the network and router of an interface whose addresses were replaced; ``before``: its previous subnets.

    Raises ServicePortInUseError if the subnets differ, because only adding or removing an interface may change them.
    """
    if set(port.fixed_ips.values_list("subnet_id", flat=True)) != set(before):
        msg = f"Port {port.id} cannot be changed via the port API: has device owner {port.device_owner} (fixed_ips)."
        raise ServicePortInUseError(msg, field="fixed_ips")
    mark(NETWORK, [port.network_id])
    mark(ROUTER, [port.device_id] if port.device_id else [])


def _check_gateway(router: Router, subnet: Subnet, *, anywhere: bool) -> None:
    """Reject a router interface that would become the gateway of another project's network."""
    if not anywhere and subnet.network.project_id != router.project_id:
        raise _bad(
            f"Subnet {subnet.id} is on another project's network, and only that project can set its gateway;"
            " use a port of your own with another address as the interface"
        )


def _check_new(router: Router, subnets: list[Subnet]) -> None:
    outside = next((subnet.network for subnet in subnets if subnet.network.external), None)
    if outside is not None:
        raise _bad(f"Network {outside.id} is external: connect the router by its gateway, not by an interface")
    taken = legs_of(router).filter(fixed_ips__subnet__in=subnets).first()
    if taken is not None:
        raise _bad(f"Router already has a port on subnet {subnets[0].id}")
    check_overlaps(router, subnets)


def _port_to_share(router: Router, subnet: Subnet) -> Port | None:
    legs = legs_of(router).filter(network_id=subnet.network_id, fixed_ips__subnet__ip_version=6)
    return legs.exclude(fixed_ips__subnet__ip_version=4).distinct().first()


def _check_unused(router: Router, subnet: Subnet) -> None:
    about = f"Router interface for subnet {subnet.id} on router {router.id} cannot be deleted, as it is required by"
    floats = FloatingIP.objects.filter(
        router=router, fixed_port__fixed_ips__subnet=subnet, fixed_port__fixed_ips__address=F("fixed_address")
    )
    forwards = PortForwarding.objects.filter(
        floating_ip__router=router,
        internal_port__fixed_ips__subnet=subnet,
        internal_port__fixed_ips__address=F("internal_ip_address"),
    )
    if floats.exists() or forwards.exists():
        raise RouterInterfaceInUseByFloatingIPError(f"{about} one or more floating IPs.")
    if any(addresses.contains(subnet, route["nexthop"]) for route in router.routes):
        raise RouterInterfaceInUseByRouteError(f"{about} one or more routes.")


def _delete(port: Port) -> None:
    """Delete the row without changing ``port``: the response contains ``port.id``."""
    Port.objects.filter(id=port.id).delete()


def _changed(router: Router, port: Port) -> None:
    records.touch(router)
    mark(NETWORK, [port.network_id])
    mark(ROUTER, [router.id])
    announce(router)


def _bad(reason: str) -> BadRequestError:
    return BadRequestError(f"Bad router request: {reason}.")
