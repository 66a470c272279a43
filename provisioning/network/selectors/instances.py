"""Interfaces and addresses of instances: for lists of servers, and for the host that plugs the interfaces."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import netaddr
from django.db.models import UUIDField

from compute_agent.contract.build import AddressPair, DhcpOption, FixedAddress, NetworkRef, PortRef
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.network import addressing
from provisioning.network.models import FixedIP, Network, Port, Subnet
from provisioning.network.models.base import short_of
from provisioning.network.selectors.host_refs import project_domain, segment_ref, subnet_refs
from provisioning.network.selectors.visibility import shared_with_others, with_conditions

TAP_LENGTH = 11
"""Characters of the port's id in the name of its tap device, as in Nova."""

NO_RANGE = "0.0.0.0/32"
"""Sent to hosts as the range of a network without subnets, because they parse it as a range."""


@dataclass(frozen=True, slots=True)
class PortAddress:
    """One address of an instance."""

    network_name: str
    address: str
    version: int
    mac: str
    port_id: uuid.UUID
    network_id: uuid.UUID
    floating: tuple[str, ...] = ()
    """The floating IPs that are associated with it."""
    leased_at: datetime | None = None
    """When the guest got it by DHCP, if its host has reported that."""

    @property
    def network(self) -> str:
        """The display name of its network."""
        return self.network_name or short_of(self.network_id)


def addresses_of(instance_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[PortAddress]]:
    """Return the addresses of many instances, each in the order of its interfaces, with their floating IPs; one query.
    Instances without addresses are omitted.
    """
    result: dict[uuid.UUID, dict[int, PortAddress]] = {}
    rows = _ADDRESSES_OF_ALL(ids=instance_ids)
    for device_id, key, name, address, version, mac, port_id, network_id, leased_at, floating, associated in rows:
        if device_id is None:
            continue
        mine = result.setdefault(device_id, {})
        entry = mine.get(key) or PortAddress(name, address, version, mac, port_id, network_id, leased_at=leased_at)
        mine[key] = replace(entry, floating=(*entry.floating, floating)) if associated == address else entry
    return {device_id: list(mine.values()) for device_id, mine in result.items()}


@dataclass(frozen=True, slots=True)
class GuestAddress:
    """One address of an interface, with the address and the project of its floating IP."""

    address: str
    subnet_id: uuid.UUID
    version: int
    floating: str | None = None
    floating_project: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class GuestInterface:
    """One interface of an instance."""

    port_id: uuid.UUID
    project_id: uuid.UUID
    network_id: uuid.UUID
    mac_address: str
    description: str
    port_security: bool
    device_index: int
    leaving: bool
    delete_with_device: bool
    created_at: datetime
    addresses: list[GuestAddress] = field(default_factory=list)
    groups: dict[uuid.UUID, str] = field(default_factory=dict)
    """Its security groups and their names."""


def interfaces_of_all(instance_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[GuestInterface]]:
    """Return the interfaces of many instances, each in their order; two queries, whatever their number.

    An interface that is attached between the two queries is omitted.
    """
    keys = list(instance_ids)
    result: dict[uuid.UUID, list[GuestInterface]] = {}
    every: dict[uuid.UUID, GuestInterface] = {}
    rows: list[Any] = list(_INTERFACES_OF_ALL(ids=keys))
    for device_id, *own, address, subnet_id, version, floating, owner, associated in rows:
        interface = every.get(own[0])
        if interface is None:
            interface = every[own[0]] = GuestInterface(*own)
            result.setdefault(device_id, []).append(interface)
        if address is None:
            continue
        association = (floating, owner) if associated == address else (None, None)
        addresses = interface.addresses
        if not addresses or addresses[-1].address != address:
            addresses.append(GuestAddress(address, subnet_id, version, *association))
        elif associated == address:
            addresses[-1] = GuestAddress(address, subnet_id, version, *association)
    for port_id, group_id, name in _GROUPS_OF_ALL(ids=keys) if every else ():
        if port_id in every:
            every[port_id].groups[group_id] = name
    return result


def security_group_names_of(instance_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return the names of the security groups of many instances' ports, each once and in order; one query."""
    result: dict[uuid.UUID, list[str]] = {}
    rows = _GROUP_NAMES(ids=instance_ids)
    for device_id, name in rows:
        if device_id is not None:
            result.setdefault(device_id, []).append(name)
    return result


_ADDRESSES_OF_ALL = Prepared(
    lambda ids: (
        FixedIP.objects.filter(Among("port__device_id", ids))
        .order_by("port__device_index", "id", "port__floating_ips__address")
        .values_list(
            "port__device_id",
            "id",
            "port__network__name",
            "address",
            "subnet__ip_version",
            "port__mac_address",
            "port_id",
            "port__network_id",
            "leased_at",
            "port__floating_ips__address",
            "port__floating_ips__fixed_address",
        )
    ),
    ids=Ids(),
)
_INTERFACES_OF_ALL = Prepared(
    lambda ids: (
        Port.objects.filter(Among("device_id", ids))
        .order_by("device_index", "id", "fixed_ips__id", "floating_ips__id")
        .values_list(
            "device_id",
            "id",
            "project_id",
            "network_id",
            "mac_address",
            "description",
            "port_security_enabled",
            "device_index",
            "leaving",
            "delete_with_device",
            "created_at",
            "fixed_ips__address",
            "fixed_ips__subnet_id",
            "fixed_ips__subnet__ip_version",
            "floating_ips__address",
            "floating_ips__project_id",
            "floating_ips__fixed_address",
        )
    ),
    ids=Ids(),
)
_GROUPS_OF_ALL = Prepared(
    lambda ids: (
        Port.security_groups.through.objects.filter(Among("port__device_id", ids))
        .order_by("securitygroup__name", "securitygroup_id")
        .values_list("port_id", "securitygroup_id", "securitygroup__name")
    ),
    ids=Ids(),
)
_GROUP_NAMES = Prepared(
    lambda ids: (
        Port.objects.filter(Among("device_id", ids), security_groups__isnull=False)
        .values_list("device_id", "security_groups__name")
        .distinct()
        .order_by("security_groups__name")
    ),
    ids=Ids(),
)


def port_refs(instance_id: uuid.UUID, *, leaving: bool = False) -> list[PortRef]:
    """Return an instance's interfaces in order, as they are sent to its host.

    Security groups are given by their ids, because rules are sent separately. Interfaces that are being detached are
    included only if ``leaving``.
    """
    ports = [port for port in _PORTS(device_id=instance_id) if leaving or not port.leaving]
    if not ports:
        return []
    addresses = _by(_ADDRESSES(device_id=instance_id), "port_id")
    subnets = _by(_SUBNETS(device_id=instance_id), "network_id")
    groups: dict[uuid.UUID, dict[uuid.UUID, str]] = {}
    for port_id, group_id, name in _GROUPS(device_id=instance_id):
        groups.setdefault(port_id, {})[group_id] = name
    return [
        _port_ref(port, _network_ref(port.network, subnets[port.network_id]), addresses[port.id], mine)
        for port in ports
        for mine in [groups.get(port.id, {})]
    ]


def _by(rows: Iterable[Any], column: str) -> defaultdict[uuid.UUID, list[Any]]:
    result: defaultdict[uuid.UUID, list[Any]] = defaultdict(list)
    for row in rows:
        result[getattr(row, column)].append(row)
    return result


_PORTS = Prepared(
    lambda device_id: with_conditions(
        Port.objects.filter(device_id=device_id).select_related("network").order_by("device_index"),
        on_shared_network=shared_with_others("network__"),
    ),
    device_id=UUIDField(),
)
_ADDRESSES = Prepared(
    lambda device_id: FixedIP.objects.filter(port__device_id=device_id).select_related("subnet").order_by("id"),
    device_id=UUIDField(),
)
_SUBNETS = Prepared(
    lambda device_id: Subnet.objects.filter(
        network_id__in=Port.objects.filter(device_id=device_id).values("network_id")
    ),
    device_id=UUIDField(),
)
_GROUPS = Prepared(
    lambda device_id: Port.security_groups.through.objects.filter(port__device_id=device_id).values_list(
        "port_id", "securitygroup_id", "securitygroup__name"
    ),
    device_id=UUIDField(),
)


def port_ids_of(instance_id: uuid.UUID) -> list[uuid.UUID]:
    """Return the ids of an instance's ports in the order of its interfaces, including those that are being detached."""
    return list(Port.objects.filter(device_id=instance_id).order_by("device_index").values_list("id", flat=True))


def interfaces_of(instance_id: uuid.UUID) -> list[Port]:
    """Return an instance's ports with their addresses, in the order of its interfaces."""
    ports = Port.objects.filter(device_id=instance_id).prefetch_related("fixed_ips")
    return list(ports.order_by("device_index"))


def _port_ref(
    port: Port,
    network: NetworkRef,
    addresses: Iterable[FixedIP],
    groups: Mapping[uuid.UUID, str],
) -> PortRef:
    return PortRef(
        id=str(port.id),
        mac_address=port.mac_address,
        tap=f"tap{str(port.id)[:TAP_LENGTH]}",
        network=network,
        dns_name=port.dns_name,
        dns_domain=project_domain(port, port.network, shared=port.on_shared_network),
        fixed_ips=[_fixed_address(address) for address in addresses],
        port_security=port.port_security_enabled,
        enabled=port.admin_state_up,
        allowed_address_pairs=[
            AddressPair(address=_address_or_range(pair["ip_address"]), mac_address=pair.get("mac_address") or "")
            for pair in port.allowed_address_pairs
        ],
        extra_dhcp_opts=[
            DhcpOption(name=option["opt_name"], value=option["opt_value"], ip_version=option.get("ip_version", 4))
            for option in port.extra_dhcp_opts
        ],
        security_group_ids=sorted(str(group) for group in groups),
        security_groups=sorted(groups.values()),
    )


def _network_ref(network: Network, subnets: Sequence[Subnet]) -> NetworkRef:
    """Return a network with its subnets. The fields of the first subnet, if any, are also fields of the network."""
    first = min(subnets, key=lambda subnet: (subnet.created_at, subnet.id), default=None)
    return NetworkRef(
        id=str(network.id),
        name=network.name,
        bridge=network.bridge,
        cidr=first.cidr if first else NO_RANGE,
        gateway=first.gateway_ip if first else None,
        dhcp_address=first.dhcp_address if first else None,
        mtu=network.mtu,
        dns_domain=network.domain,
        dns_nameservers=first.dns_nameservers if first else [],
        segment=segment_ref(network),
        subnets=subnet_refs(subnets),
    )


def _fixed_address(address: FixedIP) -> FixedAddress:
    subnet = address.subnet
    return FixedAddress(
        address=address.address,
        prefix_length=netaddr.IPNetwork(subnet.cidr).prefixlen,
        gateway=subnet.gateway_ip,
        dns_nameservers=subnet.dns_nameservers,
        subnet_id=str(subnet.id),
        enable_dhcp=subnet.enable_dhcp,
    )


def _address_or_range(text: str) -> str:
    return addressing.network_of(text) if "/" in text else text
