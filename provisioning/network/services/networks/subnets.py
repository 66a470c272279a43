"""Creates, updates and deletes subnets, with a given range or one from a subnet pool."""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

import netaddr
from django.db import transaction
from django.db.models import UUIDField

from compute_agent.contract.network import NETWORK
from provisioning.common.database.prepared import Prepared, PreparedInsert
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing
from provisioning.network.addressing import Range
from provisioning.network.errors import (
    BadSubnetRequestError,
    DNSNameServersExhaustedError,
    GatewayConflictWithAllocationPoolsError,
    GatewayIpInUseError,
    HostRoutesExhaustedError,
    InvalidAllocationPoolError,
    NetworkSubnetPoolAffinityError,
    OutOfBoundsAllocationPoolError,
    OverlappingAllocationPoolsError,
    SubnetInUseError,
)
from provisioning.network.models import FixedIP, Network, Port, Subnet, SubnetPool
from provisioning.network.records import owners
from provisioning.network.records.announcements import announce
from provisioning.network.records.marks import mark
from provisioning.network.services.addressing import dhcp_ports, subnet_pools
from provisioning.network.services.addressing.ipam import STATELESS, is_stateless
from provisioning.network.services.base import network_guests, records
from provisioning.network.services.ports import stateless
from provisioning.network.services.routing import routers
from provisioning.quotas.services.ledger import hold

MAX_NAME_SERVERS, MAX_HOST_ROUTES = 5, 20
"""Neutron's max_dns_nameservers and max_subnet_host_routes."""
AUTO = "auto"
"""The gateway is the first address of the range."""
Pools = Sequence[Mapping[str, str]]


class SubnetFields(TypedDict, total=False):
    """Fields of a new subnet.

    ``ip_version``: by default the range's; ``gateway_ip``: ``auto`` uses the first address, None sets no gateway;
    ``allocation_pools``: None includes all other addresses; ``subnet_pool`` with ``prefixlen``: the source of the range
    if none is given.
    """

    project_id: uuid.UUID
    name: str
    description: str
    ip_version: int
    gateway_ip: str | None
    enable_dhcp: bool
    dns_nameservers: Sequence[str]
    allocation_pools: Pools | None
    host_routes: Sequence[Mapping[str, str]]
    ipv6_ra_mode: str | None
    ipv6_address_mode: str | None
    service_types: Sequence[str]
    subnet_pool: SubnetPool | None
    prefixlen: int | None


@when_broken_off
def create_subnet(network: Network, cidr: str | None = None, **fields: Unpack[SubnetFields]) -> Subnet:
    """Create a subnet; ranges of one network must not overlap.

    Raises InvalidInputError and other errors of Neutron, each naming the field, and OverQuotaError.
    """
    columns: dict[str, Any] = dict(fields)
    pool, prefixlen = columns.pop("subnet_pool", None), columns.pop("prefixlen", None)
    gateway, pools = columns.pop("gateway_ip", AUTO), columns.pop("allocation_pools", None)
    version = columns.pop("ip_version", None)
    for mode in ("ipv6_ra_mode", "ipv6_address_mode"):
        columns[mode] = columns.get(mode) or ""
    subnet = Subnet(network=network, **{"project_id": network.project_id} | columns)
    with transaction.atomic():
        if is_stateless(subnet):
            network_guests.lock(network)
        hold(subnet.project_id, subnet.id, {"subnets": 1})
        records.lock(network)  # so that no other subnet is added while ranges are compared
        whole = _range(subnet, cidr, pool, prefixlen)
        _fill(subnet, whole, version, gateway, pools)
        _check_beside(subnet, whole, _OTHERS(network=network.id))
        _INSERT([subnet])
        dhcp_ports.follow(network)
        if is_stateless(subnet):
            stateless.follow_new(subnet)
        if network.external:
            routers.follow_new(subnet)
        mark(NETWORK, [network.id])
        announce(subnet, "create")
        if network.project_id != subnet.project_id:
            announce(network)
    return subnet


_OTHERS = Prepared(lambda network: Subnet.objects.filter(network_id=network), network=UUIDField())
_INSERT = PreparedInsert(Subnet)


@when_broken_off
@transaction.atomic
def update_subnet(subnet: Subnet, changes: Mapping[str, Any], revision: int | None = None) -> Subnet:
    """Change columns of a subnet; ``revision``: the required current revision.

    Raises the errors of ``create_subnet``, GatewayIpInUseError while a router has the gateway's address.
    """
    row = records.lock(subnet, revision)
    whole = netaddr.IPNetwork(row.cidr)
    values = dict(changes)
    if "gateway_ip" in values and values["gateway_ip"] != row.gateway_ip:
        _check_gateway_free(row)
        gateway = _gateway(values["gateway_ip"], whole)
        values["gateway_ip"] = None if gateway is None else str(gateway)
    if "allocation_pools" in values:
        ranges = _pools(values["allocation_pools"], whole)
        values["allocation_pools"] = addressing.as_pools(ranges, whole.version)
    for name, value in values.items():
        setattr(row, name, value)
    _check_gateway_outside(row)
    _check_options(row)
    values |= {name: getattr(row, name) for name in ("dns_nameservers", "host_routes") if name in values}
    fresh = Subnet.objects.get(pk=row.pk)
    if records.write(fresh, values):
        dhcp_ports.follow(fresh.network)
        mark(NETWORK, [fresh.network_id])
        announce(fresh)
    return fresh


@when_broken_off
@transaction.atomic
def delete_subnet(subnet: Subnet, revision: int | None = None) -> None:
    """Delete a subnet.

    Raises SubnetInUseError while ports have addresses in the subnet, except ports that the cloud creates by itself
    and addresses that guests derive.
    """
    if is_stateless(subnet):
        network_guests.lock(subnet.network)
    row = records.lock_to_delete(subnet, revision)
    used = FixedIP.objects.filter(subnet=row).exclude(port__device_owner__in=owners.OF_THE_NETWORK)
    if is_stateless(row):
        used = used.filter(port__device_owner__startswith=owners.CLOUD)
    if used.exists():
        reason = "One or more ports have an IP allocation from this subnet."
        raise SubnetInUseError(f"Unable to complete operation on subnet {row.id}: {reason}")
    network = row.network
    if is_stateless(row):
        stateless.follow_deleted(row)
    FixedIP.every.filter(subnet=row).delete()
    announce(row, "delete")
    records.remove(row)
    dhcp_ports.follow(network)
    mark(NETWORK, [network.id])


def _range(subnet: Subnet, cidr: str | None, pool: SubnetPool | None, prefixlen: int | None) -> netaddr.IPNetwork:
    """Return the requested range, or allocate one from the pool. A pool stays locked until the transaction ends."""
    if cidr is not None and prefixlen is not None:
        raise BadSubnetRequestError("Bad subnets request: cidr and prefixlen must not be supplied together.")
    whole = addressing.parse_cidr(cidr) if cidr is not None else None
    if pool is None:
        if whole is None:
            raise BadSubnetRequestError("Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
        return whole
    subnet.subnet_pool = records.lock(pool)
    taken = subnet_pools.allocate(subnet.subnet_pool, subnet.project_id, whole, prefixlen)
    return addressing.parse_cidr(str(taken))


def _fill(
    subnet: Subnet, whole: netaddr.IPNetwork, version: int | None, gateway: str | None, pools: Pools | None
) -> None:
    """Set the fields that depend on the range, and validate their combination."""
    if version is not None and version != whole.version:
        msg = f"Invalid input for operation: cidr '{whole}' does not match the ip_version '{version}'."
        raise InvalidInputError(msg, field="ip_version")
    subnet.ip_version, subnet.cidr = whole.version, str(whole)
    hosts = addressing.hosts_of(whole)
    address = netaddr.IPAddress(hosts.first, version=whole.version) if gateway == AUTO else _gateway(gateway, whole)
    subnet.gateway_ip = None if address is None else str(address)
    if pools is None:
        ranges = addressing.without([hosts], [] if address is None or address not in whole else [int(address)])
    else:
        ranges = _pools(pools, whole)
    subnet.allocation_pools = addressing.as_pools(ranges, whole.version)
    _check_gateway_outside(subnet)
    _check_modes(subnet, whole)
    _check_options(subnet)


def _gateway(text: str | None, whole: netaddr.IPNetwork) -> netaddr.IPAddress | None:
    """Return the gateway's address, inside or outside the range, or None.

    As in Neutron, only the first and the last address of an IPv4 range are rejected.
    """
    if text is None:
        return None
    result = addressing.parse_address(text, field="gateway_ip", version=whole.version)
    if result.version == 4 and int(result) in {int(whole.first), int(whole.last)}:
        raise InvalidInputError("Invalid input for operation: Gateway is not valid on subnet.", field="gateway_ip")
    return result


def _pools(pools: Pools, whole: netaddr.IPNetwork) -> list[Range]:
    """Return the pools in order; they must be inside the range and must not overlap."""
    hosts, ranges = addressing.hosts_of(whole), []
    for pool in pools:
        text = f"{pool.get('start')}-{pool.get('end')}"
        ends = [addressing.parse_address(pool.get(end, ""), field="allocation_pools") for end in ("start", "end")]
        if ends[0] > ends[1] or any(end.version != whole.version for end in ends):
            raise InvalidAllocationPoolError(f"The allocation pool {text} is not valid.", field="allocation_pools")
        if int(ends[0]) not in hosts or int(ends[1]) not in hosts:
            msg = f"The allocation pool {text} spans beyond the subnet cidr {whole}."
            raise OutOfBoundsAllocationPoolError(msg, field="allocation_pools")
        ranges.append(Range(int(ends[0]), int(ends[1])))
    ranges.sort(key=lambda part: part.first)
    for before, after in itertools.pairwise(ranges):
        if before.last >= after.first:
            one, other = (
                f"{pool['start']}-{pool['end']}" for pool in addressing.as_pools([before, after], whole.version)
            )
            msg = f"Found overlapping allocation pools: {one} {other} for subnet {whole}."
            raise OverlappingAllocationPoolsError(msg, field="allocation_pools")
    return ranges


def _check_gateway_outside(subnet: Subnet) -> None:
    """Reject a gateway address that is in an allocation pool."""
    if subnet.gateway_ip is None:
        return
    number = int(netaddr.IPAddress(subnet.gateway_ip))
    for pool, part in zip(subnet.allocation_pools, addressing.read_pools(subnet.allocation_pools), strict=True):
        if number in part:
            msg = f"Gateway ip {subnet.gateway_ip} conflicts with allocation pool {pool['start']}-{pool['end']}."
            raise GatewayConflictWithAllocationPoolsError(msg, field="gateway_ip")


def _check_gateway_free(subnet: Subnet) -> None:
    """Reject a change of the gateway while a router has its address."""
    if subnet.gateway_ip is None:
        return
    ports = Port.objects.filter(fixed_ips__subnet=subnet, fixed_ips__address=subnet.gateway_ip)
    port = ports.filter(device_owner=owners.ROUTER_INTERFACE).first()
    if port is not None:
        msg = f"Current gateway ip {subnet.gateway_ip} already in use by port {port.id}. Unable to update."
        raise GatewayIpInUseError(msg, field="gateway_ip")


def _check_modes(subnet: Subnet, whole: netaddr.IPNetwork) -> None:
    """Reject invalid combinations of IPv6 modes, with Neutron's messages."""
    announced, mode = subnet.ipv6_ra_mode, subnet.ipv6_address_mode
    if not announced and not mode:
        return
    if whole.version == 4:
        name = "ipv6_ra_mode" if announced else "ipv6_address_mode"
        msg = f"Invalid input for operation: {name} is not valid when ip_version is 4."
    elif not subnet.enable_dhcp:
        msg = (
            "Invalid input for operation: ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to"
            " False."
        )
    elif announced and mode and announced != mode:
        msg = (
            f"Invalid input for operation: ipv6_ra_mode set to '{announced}' with ipv6_address_mode set to '{mode}' is"
            " not valid. If both attributes are set, they must be the same value."
        )
    elif whole.prefixlen != 64 and {announced, mode} & {*STATELESS}:
        msg = (
            f"Invalid input for operation: Invalid CIDR {whole} for IPv6 address mode. OpenStack uses the EUI-64"
            " address format, which requires the prefix to be /64."
        )
    else:
        return
    raise InvalidInputError(msg, field="ipv6_address_mode")


def _check_options(subnet: Subnet) -> None:
    """Reject too many or invalid name servers and routes, and IPv6 modes without DHCP."""
    if not subnet.enable_dhcp and (subnet.ipv6_ra_mode or subnet.ipv6_address_mode):
        msg = "Invalid input for operation: Cannot disable enable_dhcp with ipv6 attributes set."
        raise InvalidInputError(msg, field="enable_dhcp")
    servers, routes = [*subnet.dns_nameservers], [*subnet.host_routes]
    if len(servers) > MAX_NAME_SERVERS:
        reason = f"The number of DNS nameservers exceeds the limit {MAX_NAME_SERVERS}."
        msg = f"Unable to complete operation for {subnet.id}. {reason}"
        raise DNSNameServersExhaustedError(msg, field="dns_nameservers")
    subnet.dns_nameservers = [_name_server(text, subnet.ip_version) for text in servers]
    if len(routes) > MAX_HOST_ROUTES:
        reason = f"The number of host routes exceeds the limit {MAX_HOST_ROUTES}."
        msg = f"Unable to complete operation for {subnet.id}. {reason}"
        raise HostRoutesExhaustedError(msg, field="host_routes")
    subnet.host_routes = []
    for route in routes:
        to = addressing.parse_range(route["destination"], field="host_routes")
        hop = addressing.parse_address(route["nexthop"], field="host_routes", version=to.version)
        subnet.host_routes.append({"destination": str(to), "nexthop": str(hop)})
        if to.version != subnet.ip_version:
            msg = (
                f"Invalid input for operation: host_routes '{to}' does not match the ip_version '{subnet.ip_version}'."
            )
            raise InvalidInputError(msg, field="host_routes")


def _name_server(text: str, version: int) -> str:
    """Return the address in normal form; 0.0.0.0 and :: mean that guests get no name server, as in Neutron."""
    address = addressing.parse_address(text, field="dns_nameservers", version=version)
    if int(address) and any(address in each for each in addressing.NOT_OF_NETWORKS[version]):
        msg = f"Invalid input for operation: dns_nameservers '{address}' is not the address of a server on a network."
        raise InvalidInputError(msg, field="dns_nameservers")
    return str(address)


def _check_beside(subnet: Subnet, whole: netaddr.IPNetwork, others: Sequence[Subnet]) -> None:
    """Reject a range that overlaps another subnet of the network, and subnets of different pools on one network."""
    if addressing.overlapping(whole, others) is not None:
        reason = f"Requested subnet with cidr: {whole} for network: {subnet.network_id} overlaps with another subnet."
        raise InvalidInputError(f"Invalid input for operation: {reason}", field="cidr")
    same = [other.subnet_pool_id for other in others if other.ip_version == subnet.ip_version]
    if any(pool != subnet.subnet_pool_id for pool in same):
        msg = "Subnets hosted on the same network must be allocated from the same subnet pool."
        raise NetworkSubnetPoolAffinityError(msg, field="subnetpool_id")
