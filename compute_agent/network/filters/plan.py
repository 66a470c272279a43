"""The filter plan, drawn from the desired state: only validated text and numbers reach nft."""

import functools
import ipaddress
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from compute_agent.contract.build import PortRef
from compute_agent.contract.network import RouterDocument, SecurityGroupDocument
from compute_agent.network.kernel.links import interface_name
from compute_agent.network.kernel.names import link_local, service_mac
from compute_agent.network.state.desired import DesiredState

log = logging.getLogger(__name__)

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True)
class Source:
    """A MAC address that an interface may send from, and the addresses or ranges allowed with it."""

    mac: str
    v4: tuple[str, ...]
    v6: tuple[str, ...]


@dataclass(frozen=True)
class FilteredPort:
    """An interface of a guest, as the packet filters identify it."""

    number: int
    tap: str
    bridge: str
    mac: str
    service_mac: str
    own: Source
    """The interface's MAC address with its fixed addresses and its link-local address. They authenticate metadata
    requests.
    """
    sources: tuple[Source, ...]
    """All sources that the interface may send from: ``own``, and allowed address pairs."""
    groups: tuple[str, ...]
    """Keys of the interface's security groups."""
    secured: bool
    enabled: bool
    away: bool = False
    """Whether the guest is on the other host of its migration."""


@dataclass(frozen=True)
class Plan:
    """The data that the tables are rendered from."""

    ports: tuple[FilteredPort, ...] = ()
    zones: Mapping[str, int] = field(default_factory=dict)
    """Bridge → connection tracking zone."""
    groups: Mapping[str, SecurityGroupDocument] = field(default_factory=dict)
    """Key → document; a port's group without a document allows nothing."""
    members: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Key of a group that rules refer to → pairs of a bridge and a member's address as seen on that bridge."""
    service_macs: tuple[str, ...] = ()
    shared_macs: tuple[str, ...] = ()
    """MAC addresses of services and routers, from which no guest may send."""
    share: int = 0
    """Limit of the tracked connections that each port may begin, and of the connections that other addresses may begin
    with it; 0: no limit.
    """


@functools.lru_cache(maxsize=1 << 14)
def group_key(group_id: str) -> str:
    """Return a group's key for names of chains and sets."""
    return UUID(group_id).hex


def draw(desired: DesiredState, number_of: Mapping[str, int], zone_of: Mapping[str, int], share: int = 0) -> Plan:
    """Draw the plan. ``number_of``: port id → number. ``zone_of``: network id → zone.

    An interface or group that cannot be filtered is logged and omitted. Such an interface passes no traffic, because
    ``identity`` drops frames from unknown interfaces.
    """
    services = {network.id: service_mac(network) for network in desired.networks.values()}
    shared = set(services.values()) | {mac for each in desired.networks.values() for mac in each.shared_macs}
    ports = []
    for each in desired.ports:
        port = each.port
        try:
            drawn = _port(port, number_of[port.id], services[port.network.id])
            ports.append(replace(drawn, away=each.away))
        except (ValueError, KeyError) as error:
            log.warning("Port %s cannot be filtered and passes nothing: %s", port.id, error)
    groups = {group_key(key): document for key, document in desired.security_groups.items()}
    bridges = {network.id: interface_name(network.bridge) for network in desired.networks.values()}
    return Plan(
        ports=tuple(sorted(ports, key=lambda port: port.number)),
        zones={bridges[key]: zone_of[key] for key in bridges if key in zone_of},
        groups=groups,
        members=_members(desired, groups, bridges),
        service_macs=tuple(sorted(filter(MAC.fullmatch, services.values()))),
        shared_macs=tuple(sorted(filter(MAC.fullmatch, shared))),
        share=share,
    )


def check(port: PortRef) -> None:
    """Raise ValueError for an interface that cannot be filtered, RetryableHostError for invalid names."""
    _port(port, 0, port.mac_address)


def _port(port: PortRef, number: int, service: str) -> FilteredPort:
    mac = _mac(port.mac_address)
    own = _source(mac, tuple(fixed.address for fixed in port.fixed_ips))
    pairs: defaultdict[str, list[str]] = defaultdict(list)
    pairs[mac] += [*own.v4, *own.v6]
    for pair in port.allowed_address_pairs:
        pairs[_mac(pair.mac_address) if pair.mac_address else mac].append(pair.address)
    return FilteredPort(
        number=number,
        tap=interface_name(port.tap),
        bridge=interface_name(port.network.bridge),
        mac=mac,
        service_mac=_mac(service),
        own=own,
        sources=tuple(_source(key, tuple(addresses)) for key, addresses in pairs.items()),
        groups=tuple(sorted({group_key(each) for each in port.security_group_ids})),
        secured=port.port_security,
        enabled=port.enabled,
    )


def _mac(text: str) -> str:
    if not MAC.fullmatch(text.lower()):
        raise ValueError(f"not a hardware address: {text!r}")
    return text.lower()


@functools.lru_cache(maxsize=1 << 14)
def _source(mac: str, addresses: tuple[str, ...]) -> Source:
    parsed = [ipaddress.ip_network(address, strict=False) for address in addresses]
    by_version = {
        version: tuple(sorted({_short(each) for each in parsed if each.version == version})) for version in (4, 6)
    }
    return Source(mac, by_version[4], tuple(sorted({*by_version[6], link_local(mac)})))


def _short(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _members(
    desired: DesiredState, groups: Mapping[str, SecurityGroupDocument], bridges: Mapping[str, str]
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the members of each group that a rule refers to, as seen on the bridges of this host's guests.

    A member counts on its own network and on networks that share a router with its network: on other networks, an equal
    address belongs to another guest. Interfaces without port security do not count, because they may use any address.
    """
    named = {
        group_key(rule.remote_group_id)
        for document in groups.values()
        for rule in document.rules
        if rule.remote_group_id is not None and _is_id(rule.remote_group_id)
    }
    joined = _joined(desired.routers.values(), bridges)
    result: dict[str, tuple[tuple[str, str], ...]] = {}
    for key in named:
        where: set[tuple[str, str]] = set()
        for network_id, address in _addresses_of(key, desired, groups):
            for near in joined.get(network_id, {network_id}):
                if near in bridges:
                    where.add((bridges[near], str(ipaddress.ip_address(address))))
        result[key] = tuple(sorted(where))
    return result


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _addresses_of(
    key: str, desired: DesiredState, groups: Mapping[str, SecurityGroupDocument]
) -> Iterable[tuple[str, str]]:
    if key in groups:
        yield from ((member.network_id, member.address) for member in groups[key].members)
    for each in desired.ports:  # local members count immediately, before the document contains them
        if each.port.port_security and key in {group_key(group) for group in each.port.security_group_ids}:
            yield from ((each.port.network.id, fixed.address) for fixed in each.port.fixed_ips)


def _joined(routers: Iterable[RouterDocument], networks: Iterable[str]) -> dict[str, set[str]]:
    """Return network id → ids of the network itself and of all networks that share a router with it."""
    result = {key: {key} for key in networks}
    for router in routers:
        legs = {leg.network_id for leg in router.interfaces if leg.network_id in result}
        for key in legs:
            result[key] |= legs
    return result
