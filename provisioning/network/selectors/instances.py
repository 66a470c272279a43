"""What an instance has on its networks: for lists of servers, and for the host that plugs the interfaces."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import netaddr
from django.db.models import UUIDField

from compute_agent.contract.build import FixedAddress, NetworkRef, PortRef, SecurityRule
from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared
from provisioning.network.models import FixedIP, Network, Port, SecurityGroupRule, Subnet

TAP_LENGTH = 11
"""Characters of the port's id in the name of its tap device, as in Nova."""


@dataclass(frozen=True, slots=True)
class PortAddress:
    """One address of an instance."""

    network_name: str
    address: str
    version: int
    mac: str
    port_id: uuid.UUID
    network_id: uuid.UUID


def addresses_of(instance_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[PortAddress]]:
    """Return the addresses of many instances, each in the order of its interfaces, in one query; none without."""
    found: dict[uuid.UUID, list[PortAddress]] = {}
    rows = _ADDRESSES_OF_ALL(ids=instance_ids)
    for device_id, name, address, version, mac, port_id, network_id in rows:
        if device_id is not None:
            found.setdefault(device_id, []).append(PortAddress(name, address, version, mac, port_id, network_id))
    return found


def security_group_names_of(instance_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return the names of the security groups of many instances' ports, each once and in order; one query."""
    found: dict[uuid.UUID, list[str]] = {}
    rows = _GROUP_NAMES(ids=instance_ids)
    for device_id, name in rows:
        if device_id is not None:
            found.setdefault(device_id, []).append(name)
    return found


_ADDRESSES_OF_ALL = Prepared(
    lambda ids: (
        FixedIP.objects.filter(Among("port__device_id", ids))
        .order_by("port__device_index", "id")
        .values_list(
            "port__device_id",
            "port__network__name",
            "address",
            "subnet__ip_version",
            "port__mac_address",
            "port_id",
            "port__network_id",
        )
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
    """Return an instance's interfaces as its host is told of them, in order, with their security groups and every rule;
    those that are being taken out of the guest only if ``leaving``.

    A rule whose remote is a group names it; the host admits the members among its own ports, whose interfaces say which
    groups they are in.
    """
    ports = [port for port in _PORTS(device_id=instance_id) if leaving or not port.leaving]
    if not ports:
        return []
    addresses = _by(_ADDRESSES(device_id=instance_id), "port_id")
    subnets = _by(_SUBNETS(device_id=instance_id), "network_id")
    rules = _by(_RULES(device_id=instance_id), "group_id")
    groups: dict[uuid.UUID, list[uuid.UUID]] = {}
    for port_id, group_id in _GROUPS(device_id=instance_id):
        groups.setdefault(port_id, []).append(group_id)
    return [
        _port_ref(port, _network_ref(port.network, subnets[port.network_id]), addresses[port.id], mine, rules)
        for port in ports
        for mine in [groups.get(port.id, [])]
    ]


def _by(rows: Iterable[Any], column: str) -> defaultdict[uuid.UUID, list[Any]]:
    found: defaultdict[uuid.UUID, list[Any]] = defaultdict(list)
    for row in rows:
        found[getattr(row, column)].append(row)
    return found


_PORTS = Prepared(
    lambda device_id: Port.objects.filter(device_id=device_id).select_related("network").order_by("device_index"),
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
        "port_id", "securitygroup_id"
    ),
    device_id=UUIDField(),
)
_RULES = Prepared(
    lambda device_id: SecurityGroupRule.objects.filter(
        group_id__in=Port.security_groups.through.objects.filter(port__device_id=device_id).values("securitygroup_id")
    ),
    device_id=UUIDField(),
)


def port_ids_of(instance_id: uuid.UUID) -> list[uuid.UUID]:
    """Return the ids of an instance's ports in the order of its interfaces, with those that are being taken out."""
    return list(Port.objects.filter(device_id=instance_id).order_by("device_index").values_list("id", flat=True))


def interfaces_of(instance_id: uuid.UUID) -> list[Port]:
    """Return an instance's ports with their addresses, in the order of its interfaces."""
    ports = Port.objects.filter(device_id=instance_id).prefetch_related("fixed_ips")
    return list(ports.order_by("device_index"))


def _port_ref(
    port: Port,
    network: NetworkRef,
    addresses: Iterable[FixedIP],
    groups: Iterable[uuid.UUID],
    rules_by_group: Mapping[uuid.UUID, Sequence[SecurityGroupRule]],
) -> PortRef:
    rules = [rule for group in groups for rule in rules_by_group.get(group, ())]
    unique = dict.fromkeys(map(_signature, sorted(rules, key=lambda rule: (rule.created_at, rule.id))))
    return PortRef(
        id=str(port.id),
        mac_address=port.mac_address,
        tap=f"tap{str(port.id)[:TAP_LENGTH]}",
        network=network,
        dns_domain=project_domain(port) if port.network.shared else "",
        fixed_ips=[_fixed_address(address) for address in addresses],
        security_group_ids=sorted(str(group) for group in groups),
        security_rules=[
            SecurityRule(
                direction=direction,
                ethertype=ethertype,
                protocol=protocol,
                port_range_min=low,
                port_range_max=high,
                remote_ip_prefix=prefix,
                remote_group_id=str(group) if group else None,
            )
            for direction, ethertype, protocol, low, high, prefix, group in unique
        ],
    )


def project_domain(port: Port) -> str:
    """Return a project's domain on a shared network: a label of its id, which nobody chooses, before the network's.

    Twelve digits: the whole id would make most guests' names longer than Linux takes (64 characters).
    """
    return f"{port.project_id.hex[:12]}.{port.network.dns_domain}"


def _signature(
    rule: SecurityGroupRule,
) -> tuple[str, str, str | None, int | None, int | None, str | None, uuid.UUID | None]:
    """Return what a rule means to a host: two groups that allow the same are one rule there."""
    return (
        rule.direction,
        rule.ethertype,
        rule.protocol,
        rule.port_range_min,
        rule.port_range_max,
        rule.remote_ip_prefix,
        rule.remote_group_id,
    )


def _network_ref(network: Network, subnets: Iterable[Subnet]) -> NetworkRef:
    """Write a network with its first IPv4 subnet."""
    subnet = min(subnets, key=lambda subnet: (subnet.created_at, subnet.id))
    return NetworkRef(
        id=str(network.id),
        name=network.name,
        bridge=network.bridge,
        cidr=subnet.cidr,
        gateway=subnet.gateway_ip,
        dhcp_address=subnet.dhcp_address,
        mtu=network.mtu,
        dns_domain=network.dns_domain,
        dns_nameservers=subnet.dns_nameservers,
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
