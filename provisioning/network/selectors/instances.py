"""What an instance has on its networks: for lists of servers, and for the host that plugs the interfaces."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import netaddr

from compute_agent.contract.build import FixedAddress, NetworkRef, PortRef, SecurityRule
from provisioning.network.models import FixedIP, Network, Port, SecurityGroupRule

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
    rows = (
        FixedIP.objects.filter(port__device_id__in=list(instance_ids))
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
    )
    for device_id, name, address, version, mac, port_id, network_id in rows:
        if device_id is not None:
            found.setdefault(device_id, []).append(PortAddress(name, address, version, mac, port_id, network_id))
    return found


def security_group_names_of(instance_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return the names of the security groups of many instances' ports, each once and in order; one query."""
    found: dict[uuid.UUID, list[str]] = {}
    rows = (
        Port.objects.filter(device_id__in=list(instance_ids), security_groups__isnull=False)
        .values_list("device_id", "security_groups__name")
        .distinct()
        .order_by("security_groups__name")
    )
    for device_id, name in rows:
        if device_id is not None:
            found.setdefault(device_id, []).append(name)
    return found


def port_refs(instance_id: uuid.UUID, *, leaving: bool = False) -> list[PortRef]:
    """Return an instance's interfaces as its host is told of them, in order, with their security groups and every rule;
    those that are being taken out of the guest only if ``leaving``.

    A rule whose remote is a group names it; the host admits the members among its own ports, whose interfaces say which
    groups they are in.
    """
    ports = Port.objects.filter(device_id=instance_id)
    ports = (
        (ports if leaving else ports.filter(leaving=False))
        .select_related("network")
        .prefetch_related("network__subnets", "fixed_ips__subnet", "security_groups__rules")
        .order_by("device_index")
    )
    return [_port_ref(port) for port in ports]


def port_ids_of(instance_id: uuid.UUID) -> list[uuid.UUID]:
    """Return the ids of an instance's ports in the order of its interfaces, with those that are being taken out."""
    return list(Port.objects.filter(device_id=instance_id).order_by("device_index").values_list("id", flat=True))


def interfaces_of(instance_id: uuid.UUID) -> list[Port]:
    """Return an instance's ports with their addresses, in the order of its interfaces."""
    ports = Port.objects.filter(device_id=instance_id).prefetch_related("fixed_ips")
    return list(ports.order_by("device_index"))


def _port_ref(port: Port) -> PortRef:
    groups = port.security_groups.all()
    rules = [rule for group in groups for rule in group.rules.all()]
    unique = dict.fromkeys(map(_signature, sorted(rules, key=lambda rule: (rule.created_at, rule.id))))
    return PortRef(
        id=str(port.id),
        mac_address=port.mac_address,
        tap=f"tap{str(port.id)[:TAP_LENGTH]}",
        network=_network_ref(port.network),
        fixed_ips=[_fixed_address(address) for address in port.fixed_ips.all()],
        security_group_ids=sorted(str(group.id) for group in groups),
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


def _network_ref(network: Network) -> NetworkRef:
    """Write a network with its first IPv4 subnet."""
    subnet = min(network.subnets.all(), key=lambda subnet: (subnet.created_at, subnet.id))
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
