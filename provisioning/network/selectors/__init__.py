"""Everything that reads networks, subnets, ports, addresses and security groups."""

from provisioning.network.selectors.instances import (
    PortAddress,
    addresses_of,
    interfaces_of,
    port_ids_of,
    port_refs,
    security_group_names_of,
)
from provisioning.network.selectors.interfaces import Interface, interface_for, security_group_named
from provisioning.network.selectors.records import (
    device_ids_at,
    network_for,
    networks_for,
    networks_to_choose,
    port_for,
    ports_for,
    security_group_for,
    security_group_rule_for,
    security_group_rules_for,
    security_groups_for,
    security_groups_to_choose,
    subnet_for,
    subnets_for,
    usable_networks_for,
)
from provisioning.network.selectors.requests import Asked, requested_networks_for, security_group_ids_for

__all__ = [
    "Asked",
    "Interface",
    "PortAddress",
    "addresses_of",
    "device_ids_at",
    "interface_for",
    "interfaces_of",
    "network_for",
    "networks_for",
    "networks_to_choose",
    "port_for",
    "port_ids_of",
    "port_refs",
    "ports_for",
    "requested_networks_for",
    "security_group_for",
    "security_group_ids_for",
    "security_group_named",
    "security_group_names_of",
    "security_group_rule_for",
    "security_group_rules_for",
    "security_groups_for",
    "security_groups_to_choose",
    "subnet_for",
    "subnets_for",
    "usable_networks_for",
]
