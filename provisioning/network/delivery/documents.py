"""Builds documents: the properties of a network, router, floating IP or security group that one host needs."""

import logging
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence

import netaddr
from django.db import transaction
from django.db.models import UUIDField
from msgspec.structs import replace

from compute_agent.contract.build import SecurityRule
from compute_agent.contract.network import (
    FLOATING_IP,
    NETWORK,
    ROUTER,
    SECURITY_GROUP,
    AddressRanges,
    ApplyFloatingIpRequest,
    ApplyNetworkRequest,
    ApplyRequest,
    ApplyRouterRequest,
    ApplySecurityGroupRequest,
    ExternalGateway,
    FloatingIpDocument,
    GroupMember,
    NetworkDocument,
    PortForward,
    RemotePort,
    Route,
    RouterDocument,
    RouterInterface,
    SecurityGroupDocument,
    ServicePort,
)
from provisioning.common.database.prepared import Prepared
from provisioning.hosts.addresses import seen_from
from provisioning.hosts.models import Host
from provisioning.network import addressing
from provisioning.network.delivery.needs import Needs, bearer
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import (
    FixedIP,
    FloatingIP,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from provisioning.network.records.owners import AGENT_GATEWAY, COMPUTE, DHCP, GUESTS, ROUTER_GATEWAY, ROUTER_INTERFACE
from provisioning.network.selectors.host_refs import project_domain, segment_ref, subnet_refs
from provisioning.network.selectors.visibility import shared_with_others, with_conditions
from provisioning.network.services.ports.insertion import insert_port
from provisioning.network.services.ports.ports import lock_subnets

Documents = Mapping[uuid.UUID, ApplyRequest]
"""Host id → the command with its document."""

log = logging.getLogger(__name__)


def of(kind: str, subject_id: uuid.UUID) -> Documents:
    """Return the command for each host that needs the subject; empty if it was deleted or no host needs it.

    May write: allocates each host's own address on an external network, and chooses the host of a router's external
    address.
    """
    return _BY_KIND[kind](subject_id, Needs())


_NETWORK = Prepared(
    lambda key: with_conditions(Network.objects.filter(id=key), shared_with_others=shared_with_others()),
    key=UUIDField(),
)
_SUBNETS = Prepared(lambda network: Subnet.objects.filter(network_id=network), network=UUIDField())
_PORTS = Prepared(lambda network: Port.objects.filter(network_id=network).order_by("id"), network=UUIDField())
_ADDRESSES = Prepared(
    lambda network: FixedIP.objects.filter(port__network_id=network).order_by("id"), network=UUIDField()
)


def _networks(key: uuid.UUID, needs: Needs) -> Documents:
    network = _NETWORK.first(key=key)
    hosts = needs.of_network(network) if network is not None else []
    if network is None:
        return {}
    gateways = agent_gateways(network, hosts) if network.external else {}
    addresses = _addresses(network)
    ports = _PORTS(network=network.id)
    moving = (AGENT_GATEWAY, ROUTER_GATEWAY) if network.network_type == "vxlan" else ()
    placed = _bearers(ports) if moving else {}
    placed_ports = [
        (port, host)
        for port in ports
        if port.device_owner.startswith(COMPUTE) or port.device_owner in moving
        if (host := placed.get(port.device_id, port.host))
    ]
    service = next((_service(port, addresses[port.id]) for port in ports if port.device_owner == DHCP), None)
    shared = sorted(port.mac_address for port in ports if port.device_owner == ROUTER_INTERFACE)
    subnets = subnet_refs(_SUBNETS(network=network.id), _routed(ports, addresses))
    return {
        host.id: ApplyNetworkRequest(
            network=NetworkDocument(
                id=str(network.id),
                name=network.name,
                bridge=network.bridge,
                mtu=network.mtu,
                segment=segment_ref(network),
                subnets=subnets,
                dns_domain=network.domain,
                external=network.external,
                enabled=network.admin_state_up,
                service=service,
                peers=sorted(filter(None, (seen_from(host, other) for other in hosts if other.id != host.id))),
                remote_ports=[
                    _remote(port, network, addresses[port.id], seen_from(host, needs.hosts.get(where)))
                    for port, first in placed_ports
                    if (where := first if first != host.name else port.second_host)
                ],
                shared_macs=shared,
                gateway_port=gateways.get(host.id),
            )
        )
        for host in hosts
    }


def _addresses(network: Network) -> defaultdict[uuid.UUID, list[FixedIP]]:
    result: defaultdict[uuid.UUID, list[FixedIP]] = defaultdict(list)
    for row in _ADDRESSES(network=network.id):
        result[row.port_id or network.id].append(row)
    return result


def _bearers(ports: Sequence[Port]) -> dict[uuid.UUID | None, str]:
    """Return router id → the host that has the router's external address."""
    routers = [port.device_id for port in ports if port.device_id and port.device_owner == ROUTER_GATEWAY]
    return dict(Router.objects.filter(id__in=routers).values_list("id", "host")) if routers else {}


def _routed(ports: Sequence[Port], addresses: Mapping[uuid.UUID, Sequence[FixedIP]]) -> set[str]:
    """Return the addresses of router interfaces on the network."""
    legs = [port for port in ports if port.device_owner == ROUTER_INTERFACE]
    return {row.address for port in legs for row in addresses[port.id]}


def _service(port: Port, addresses: Sequence[FixedIP]) -> ServicePort:
    return ServicePort(
        id=str(port.id), mac_address=port.mac_address, addresses=[address.address for address in addresses]
    )


def _remote(port: Port, network: Network, addresses: Sequence[FixedIP], underlay: str) -> RemotePort:
    return RemotePort(
        id=str(port.id),
        mac_address=port.mac_address,
        addresses=[address.address for address in addresses],
        underlay=underlay,
        hostname=port.dns_name,
        dns_domain=project_domain(port, network, shared=network.shared_with_others),
    )


def _routers(key: uuid.UUID, needs: Needs) -> Documents:
    router = Router.objects.select_related("gateway_port").filter(id=key).first()
    hosts = needs.of_router(router) if router is not None else []
    if router is None:
        return {}
    legs = list(Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id=router.id).order_by("id"))
    interfaces = [
        RouterInterface(
            port_id=str(port.id),
            network_id=str(port.network_id),
            mac_address=port.mac_address,
            addresses=_with_lengths(port),
        )
        for port in legs
    ]
    routes = [
        Route(destination=addressing.network_of(route["destination"]), next_hop=route["nexthop"])
        for route in router.routes
    ]
    bears = bearer(router, hosts)
    return {
        host.id: ApplyRouterRequest(
            router=RouterDocument(
                id=str(router.id),
                name=router.name,
                enabled=router.admin_state_up,
                interfaces=interfaces,
                routes=routes,
                external=_external(router, here=host.name == bears),
            )
        )
        for host in hosts
    }


def _external(router: Router, *, here: bool) -> ExternalGateway | None:
    port = router.gateway_port
    if port is None:
        return None
    rows = list(port.fixed_ips.select_related("subnet").order_by("id"))
    if not rows:
        return None  # the external network has no subnet yet
    hops = {row.subnet.ip_version: row.subnet.gateway_ip for row in rows if row.subnet.gateway_ip}
    return ExternalGateway(
        network_id=str(port.network_id),
        next_hops=[hop for _, hop in sorted(hops.items()) if hop],
        enable_snat=router.enable_snat,
        port_id=str(port.id),
        mac_address=port.mac_address,
        addresses=_with_lengths(port),
        here=here,
    )


def _with_lengths(port: Port) -> list[str]:
    rows = port.fixed_ips.select_related("subnet").order_by("id")
    return [f"{row.address}/{netaddr.IPNetwork(row.subnet.cidr).prefixlen}" for row in rows]


def _floating_ips(key: uuid.UUID, needs: Needs) -> Documents:
    floating = FloatingIP.objects.select_related("router").filter(id=key).first()
    if floating is None or floating.router_id is None:
        return {}
    rows = floating.port_forwardings.order_by("created_at", "id")
    document = FloatingIpDocument(
        id=str(floating.id),
        address=floating.address,
        network_id=str(floating.network_id),
        router_id=str(floating.router_id),
        fixed_address=floating.fixed_address,
        forwards=[
            PortForward(
                protocol=row.protocol,
                external_first=row.external_port_first,
                external_last=row.external_port_last,
                internal_address=row.internal_ip_address,
                internal_first=row.internal_port_first,
                internal_last=row.internal_port_last,
            )
            for row in rows
        ],
    )
    hosts = needs.of_floating_ip(floating)
    if needs.is_moving(floating):
        here = ApplyFloatingIpRequest(floating_ip=replace(document, port_id=str(floating.fixed_port_id)))
        return {host.id: here for host in hosts}
    # The host that serves the address gets a document without ``bearer``.
    others = {host.id: replace(document, bearer=way) for host in hosts[1:] if (way := seen_from(host, hosts[0]))}
    bearers = {host.id: document for host in hosts[:1]}
    return {key: ApplyFloatingIpRequest(floating_ip=each) for key, each in (bearers | others).items()}


def _groups(key: uuid.UUID, needs: Needs) -> Documents:
    group = _GROUP.first(key=key)
    if group is None:
        return {}
    hosts = needs.of_group(group.id)
    if not hosts:
        return {}
    rows = _RULES(group=group.id)
    named = {row.remote_address_group.id: row.remote_address_group for row in rows if row.remote_address_group}
    document = SecurityGroupDocument(
        id=str(group.id),
        stateful=group.stateful,
        rules=[_rule(row) for row in rows],
        address_groups=[AddressRanges(id=str(key), addresses=named[key].addresses) for key in sorted(named)],
        members=[
            GroupMember(network_id=str(network), address=address) for network, address in _MEMBERS(group=group.id)
        ],
    )
    return {host.id: ApplySecurityGroupRequest(security_group=document) for host in hosts}


GUESTS_OF_PORT = type(GUESTS)(port__device_owner__startswith="compute:")
_GROUP = Prepared(lambda key: SecurityGroup.objects.filter(id=key), key=UUIDField())
_RULES = Prepared(
    lambda group: (
        SecurityGroupRule.objects.filter(group_id=group)
        .select_related("remote_address_group")
        .order_by("created_at", "id")
    ),
    group=UUIDField(),
)
_MEMBERS = Prepared(
    lambda group: (
        FixedIP.objects.filter(GUESTS_OF_PORT, port__security_groups=group, port__port_security_enabled=True)
        .order_by("port__network_id", "id")
        .values_list("port__network_id", "address")
    ),
    group=UUIDField(),
)


def _rule(row: SecurityGroupRule) -> SecurityRule:
    return SecurityRule(
        id=str(row.id),
        direction=row.direction,
        ethertype=row.ethertype,
        protocol=row.protocol,
        port_range_min=row.port_range_min,
        port_range_max=row.port_range_max,
        remote_ip_prefix=addressing.network_of(row.remote_ip_prefix) if row.remote_ip_prefix else None,
        remote_group_id=str(row.remote_group_id) if row.remote_group_id else None,
        remote_address_group_id=str(row.remote_address_group_id) if row.remote_address_group_id else None,
    )


_BY_KIND = {NETWORK: _networks, ROUTER: _routers, FLOATING_IP: _floating_ips, SECURITY_GROUP: _groups}


def agent_gateways(network: Network, hosts: Sequence[Host]) -> Mapping[uuid.UUID, ServicePort]:
    """Return host id → the host's port on an external network. Creates missing ports, and deletes ports of other hosts.

    A host gets no port if no address is free: its guests then reach the network only by floating IPs.
    """
    ids = [host.id for host in hosts]
    Port.objects.filter(network=network, device_owner=AGENT_GATEWAY).exclude(device_id__in=ids).delete()
    there = {port.device_id: port for port in Port.objects.filter(network=network, device_owner=AGENT_GATEWAY)}
    for host in hosts:
        if host.id not in there:
            port = _made(network, host)
            if port is not None:
                there[host.id] = port
    rows = FixedIP.objects.filter(port__in=there.values()).select_related("subnet").order_by("id")
    addresses: dict[uuid.UUID, list[str]] = {}
    for row in rows:
        length = netaddr.IPNetwork(row.subnet.cidr).prefixlen
        addresses.setdefault(row.port_id or network.id, []).append(f"{row.address}/{length}")
    return {
        host: ServicePort(id=str(port.id), mac_address=port.mac_address, addresses=addresses.get(port.id, []))
        for host, port in there.items()
        if host is not None
    }


def _made(network: Network, host: Host) -> Port | None:
    port = Port(
        network=network,
        project_id=network.project_id,
        device_owner=AGENT_GATEWAY,
        device_id=host.id,
        host=host.name,
        status="ACTIVE",
        port_security_enabled=False,
    )
    subnets = [subnet for subnet in lock_subnets([str(network.id)]).get(network.id, []) if subnet.ip_version == 4]
    try:
        with transaction.atomic():
            return insert_port(port, network, subnets, None, [])
    except OutOfAddressesError:
        log.warning("Host %s gets no address on the external network %s: none is left.", host.name, network.id)
        return None
