"""Creates, updates and deletes routers, with their external gateway and routes."""

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import netaddr
from django.db import transaction
from django.db.models import QuerySet, UUIDField

from compute_agent.contract.network import NETWORK, ROUTER
from provisioning.common.database.prepared import Prepared
from provisioning.common.database.retry import when_broken_off
from provisioning.network import addressing
from provisioning.network.errors import (
    BadRequestError,
    InvalidRoutesError,
    OutOfAddressesError,
    RouterExternalGatewayInUseByFloatingIpError,
    RouterInUseError,
    RoutesExhaustedError,
)
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, Router, Subnet
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.records.owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from provisioning.network.selectors.zones import check_zones
from provisioning.network.services.addressing import addresses, ipam
from provisioning.network.services.addressing.dhcp_ports import create_own_port
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.base import records
from provisioning.quotas.services.ledger import hold

MAX_ROUTES = 30
"""Neutron's max_routes."""
Routes = Sequence[Mapping[str, str]]
"""``[{"destination": "10.9.0.0/24", "nexthop": "10.20.0.9"}]``"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A requested external gateway; ``fixed_ips`` are requested addresses, optionally with a subnet's id."""

    network: Network
    enable_snat: bool = True
    fixed_ips: tuple[Mapping[str, str], ...] = ()


def create_router(
    project_id: uuid.UUID,
    *,
    name: str = "",
    description: str = "",
    admin_state_up: bool = True,
    gateway: Gateway | None = None,
    availability_zone_hints: Sequence[str] = (),
) -> Router:
    """Create a router without interfaces.

    Raises OverQuotaError, AvailabilityZoneNotFoundError, BadRequestError, OutOfAddressesError.
    """
    check_zones(availability_zone_hints)
    router = Router(
        project_id=project_id,
        name=name,
        description=description,
        admin_state_up=admin_state_up,
        availability_zone_hints=list(availability_zone_hints),
    )
    with transaction.atomic():
        hold(project_id, router.id, {"routers": 1})
        router.save(force_insert=True)
        if gateway is not None:
            _set_gateway(router, gateway)
        announce(router, "create")
    return router


@when_broken_off
def update_router(router: Router, changes: Mapping[str, object], revision: int | None = None) -> Router:
    """Change ``name``, ``description``, ``admin_state_up``, ``routes`` (all of them) or ``gateway`` (None removes it).

    Raises RevisionNumberConstraintFailedError, BadRequestError, InvalidRoutesError, RoutesExhaustedError,
    RouterExternalGatewayInUseByFloatingIpError, OutOfAddressesError.
    """
    columns = {name: value for name, value in changes.items() if name not in {"gateway", "routes"}}
    with transaction.atomic():
        router = records.lock(router, revision)
        if "gateway" in changes:
            gateway = changes["gateway"]
            if isinstance(gateway, Gateway):
                _set_gateway(router, gateway)
            else:
                _remove_gateway(router)
        if "routes" in changes:
            columns["routes"] = checked_routes(router, changes["routes"])  # type: ignore[arg-type]
        records.write(router, columns)
        _changed(router)
    return router


@when_broken_off
def add_routes(router: Router, routes: Routes) -> Router:
    """Add routes; existing ones are kept.  Raises InvalidRoutesError, RoutesExhaustedError."""
    with transaction.atomic():
        router = records.lock(router)
        together = [*router.routes, *(route for route in _plain(routes) if route not in router.routes)]
        records.write(router, {"routes": checked_routes(router, together)})
        _changed(router)
    return router


@when_broken_off
def remove_routes(router: Router, routes: Routes) -> Router:
    """Remove routes; unknown ones are ignored."""
    with transaction.atomic():
        router = records.lock(router)
        unwanted = _plain(routes)
        records.write(router, {"routes": [route for route in router.routes if route not in unwanted]})
        _changed(router)
    return router


@when_broken_off
def delete_router(router: Router, revision: int | None = None) -> None:
    """Delete a router with its external gateway.  Raises RouterInUseError, RevisionNumberConstraintFailedError."""
    with transaction.atomic():
        router = records.lock_to_delete(router, revision)
        if legs_of(router).exists() or FloatingIP.objects.filter(router=router).exists():
            raise RouterInUseError(f"Router {router.id} still has ports")
        _remove_gateway(router)
        announce(router, "delete")
        key = router.id
        records.remove(router)
        mark(ROUTER, [key])


def legs_of(router: Router) -> QuerySet[Port]:
    """Return the ports of a router's interfaces."""
    return Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id=router.id)


def check_overlaps(router: Router, requested: Iterable[Subnet]) -> None:
    """Reject subnets that overlap a subnet of the router.  Raises BadRequestError."""
    there = {row.id: row for row in [*_SUBNETS(router=router.id), *_SUBNETS_BEHIND(router=router.id)]}
    for subnet, other in itertools.product(list(requested), there.values()):
        if subnet.id == other.id:
            continue
        one, two = netaddr.IPNetwork(subnet.cidr), netaddr.IPNetwork(other.cidr)
        if one.version == two.version and one.first <= two.last and two.first <= one.last:
            msg = (
                f"Bad router request: Cidr {subnet.cidr} of subnet {subnet.id} overlaps with cidr {other.cidr} "
                f"of subnet {other.id}."
            )
            raise BadRequestError(msg, field="subnet_id")


def _ports(router: Any, *owners: str) -> QuerySet[Port]:
    return Port.objects.filter(device_id=router, device_owner__in=owners)


_SUBNETS = Prepared(
    lambda router: Subnet.objects.filter(
        fixed_ips__port__in=_ports(router, ROUTER_INTERFACE, ROUTER_GATEWAY)
    ).distinct(),
    router=UUIDField(),
)
"""Subnets on which a router has an address."""
_SUBNETS_BEHIND = Prepared(
    lambda router: Subnet.objects.filter(network__ports__in=_ports(router, ROUTER_GATEWAY)).distinct(),
    router=UUIDField(),
)
"""Subnets of the network of its gateway."""


def checked_routes(router: Router, routes: Routes) -> list[dict[str, str]]:
    """Return validated routes in normal form.  Raises InvalidRoutesError, RoutesExhaustedError."""
    plain = _plain(routes)
    if len(plain) > MAX_ROUTES:
        msg = f"Unable to complete operation for {router.id}. The number of routes exceeds the maximum {MAX_ROUTES}."
        raise RoutesExhaustedError(msg, field="routes")
    ports = _ports(router.id, ROUTER_INTERFACE, ROUTER_GATEWAY)
    subnets = [netaddr.IPNetwork(cidr) for cidr in ports.values_list("fixed_ips__subnet__cidr", flat=True) if cidr]
    own = {address for address in ports.values_list("fixed_ips__address", flat=True) if address}
    for route in plain:
        hop = netaddr.IPAddress(route["nexthop"])
        if not any(hop in subnet for subnet in subnets):
            raise _invalid(routes, "the nexthop is not connected with router")
        if route["nexthop"] in own:
            raise _invalid(routes, "the nexthop is used by router")
        if netaddr.IPNetwork(route["destination"]).version != hop.version:
            raise _invalid(routes, "the destination and the nexthop are of different IP versions")
    if len({(addressing.network_of(route["destination"]), route["nexthop"]) for route in plain}) < len(plain):
        raise _invalid(routes, "duplicate routes")
    return plain


def _plain(routes: Routes) -> list[dict[str, str]]:
    try:
        return [
            {
                "destination": str(addressing.read_prefix(route["destination"])),
                "nexthop": str(addressing.read_address(route["nexthop"])),
            }
            for route in routes
        ]
    except (ValueError, KeyError):
        raise _invalid(routes, "a route has a destination and a nexthop") from None


def _invalid(routes: object, reason: str) -> InvalidRoutesError:
    return InvalidRoutesError(f"Invalid format for routes: {str(routes)[:200]}, {reason}", field="routes")


def _set_gateway(router: Router, gateway: Gateway) -> None:
    """Set the external gateway of a locked router, keeping the port if network and addresses are the same."""
    if not gateway.network.external:
        msg = f"Bad router request: Network {gateway.network.id} is not an external network."
        raise BadRequestError(msg, field="external_gateway_info")
    port = router.gateway_port
    if port is not None and (port.network_id != gateway.network.id or _lacks_addresses(port, gateway)):
        _remove_gateway(router)
        port = None
    if port is None:
        subnets = list(gateway.network.subnets.order_by("created_at", "id"))
        check_overlaps(router, subnets)
        router.gateway_port = _gateway_port(router, gateway, subnets)
    router.enable_snat = gateway.enable_snat
    records.touch(router, "gateway_port", "enable_snat")


def _lacks_addresses(port: Port, gateway: Gateway) -> bool:
    needed = {each["ip_address"] for each in gateway.fixed_ips if each.get("ip_address")}
    return bool(needed - set(port.fixed_ips.values_list("address", flat=True)))


def _gateway_port(router: Router, gateway: Gateway, subnets: Sequence[Subnet]) -> Port:
    port = create_own_port(
        network=gateway.network,
        project_id=router.project_id,
        device_owner=ROUTER_GATEWAY,
        device_id=router.id,
        status="ACTIVE",
    )
    if gateway.fixed_ips:
        for requested in gateway.fixed_ips:
            _allocate_requested(port, subnets, requested)
        return port
    by_version = [[subnet for subnet in subnets if subnet.ip_version == version] for version in (4, 6)]
    for each in filter(None, by_version):
        addresses.allocate_free(port, each)
    return port


def _allocate_requested(port: Port, subnets: Sequence[Subnet], requested: Mapping[str, str]) -> None:
    subnet_id, address = requested.get("subnet_id"), requested.get("ip_address")
    if address:
        address = str(addressing.parse_address(address, field="external_fixed_ips"))
    fitting = [
        subnet
        for subnet in subnets
        if (not subnet_id or str(subnet.id) == str(subnet_id)) and (not address or addresses.contains(subnet, address))
    ]
    if not fitting:
        what = address or f"subnet {subnet_id}"
        msg = f"Bad router request: {what} is not of external network {port.network_id}."
        raise BadRequestError(msg, field="external_fixed_ips")
    if address:
        addresses.allocate(port, fitting[0], address)
    else:
        addresses.allocate_free(port, fitting)


def _remove_gateway(router: Router) -> None:
    port = router.gateway_port
    if port is None:
        return
    if FloatingIP.objects.filter(router=router, network_id=port.network_id).exists():
        msg = (
            f"Gateway cannot be updated for router {router.id}, since a gateway to external network "
            f"{port.network_id} is required by one or more floating IPs."
        )
        raise RouterExternalGatewayInUseByFloatingIpError(msg, field="external_gateway_info")
    router.gateway_port, router.host = None, ""
    records.touch(router, "gateway_port", "host")
    ipam.release(FixedIP.objects.filter(port=port))
    port.delete()
    mark(NETWORK, [port.network_id])


def _changed(router: Router) -> None:
    mark(ROUTER, [router.id])
    announce(router)


def follow_new(subnet: Subnet) -> None:
    """Allocate an address of a new subnet to each gateway port on its network that has no address of the IP version.

    As ``update_router_gw_port`` of Neutron. If the subnet has too few addresses, the remaining ports get none.
    """
    if is_stateless(subnet):
        return
    ports = Port.objects.filter(network=subnet.network_id, device_owner=ROUTER_GATEWAY)
    for port in ports.exclude(fixed_ips__subnet__ip_version=subnet.ip_version).order_by("id"):
        try:
            addresses.allocate_free(port, [subnet])
        except OutOfAddressesError:
            return
        records.touch(port)
        mark(ROUTER, [port.device_id] if port.device_id else [])
