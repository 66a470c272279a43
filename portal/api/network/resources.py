"""The resources of the Networking API: where they come from, how they are shown, and what they can be filtered by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.api.network import shapes
from portal.api.network.queries import Column, Constant, Filters, address, boolean, identity, lower, number
from provisioning.network import selectors

STANDARD: Filters = {
    "id": Column("id", identity),
    "name": Column("name"),
    "description": Column("description"),
    "project_id": Column("project_id", identity),
    "tenant_id": Column("project_id", identity),
    "revision_number": Column("revision_number", number),
}
SORT_KEYS: Mapping[str, str] = {
    "id": "id",
    "name": "name",
    "project_id": "project_id",
    "tenant_id": "project_id",
    "created_at": "created_at",
    "updated_at": "updated_at",
}

PROVIDER = {
    "provider:network_type": "get_network:provider:network_type",
    "provider:physical_network": "get_network:provider:physical_network",
    "provider:segmentation_id": "get_network:provider:segmentation_id",
}
BINDING = {
    "binding:host_id": "get_port:binding:host_id",
    "binding:profile": "get_port:binding:profile",
    "binding:vif_details": "get_port:binding:vif_details",
    "binding:vif_type": "get_port:binding:vif_type",
    "binding:vnic_type": "get_port:binding:host_id",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object."""

    name: str
    """With underscores, as in bodies; dashes in paths."""
    many: Callable[..., Any]
    one: Callable[..., Any]
    shape: Callable[..., dict[str, Any]]
    filters: Filters
    operator_filters: Filters = field(default_factory=dict)
    sort_keys: Mapping[str, str] = field(default_factory=lambda: SORT_KEYS)
    related: tuple[str, ...] = ()
    """What a list reads along."""
    makes_default_group: bool = False
    operator_rules: Mapping[str, str] = field(default_factory=dict)
    """Attribute → the rule of who sees it; others are shown to everybody."""

    @property
    def rule(self) -> str:
        return f"get_{self.name}"

    @property
    def plural(self) -> str:
        return f"{self.name}s"

    @property
    def path(self) -> str:
        return self.plural.replace("_", "-")


NETWORK = Resource(
    "network",
    selectors.networks_for,
    selectors.network_for,
    shapes.network,
    {
        **STANDARD,
        "admin_state_up": Column("admin_state_up", boolean),
        "shared": Column("shared", boolean),
        "mtu": Column("mtu", number),
        "status": Constant("ACTIVE"),
        "router:external": Constant(value=False, read=boolean),
        "port_security_enabled": Constant(value=True, read=boolean),
    },
    {"provider:network_type": Constant("local")},
    {**SORT_KEYS, "admin_state_up": "admin_state_up", "mtu": "mtu"},
    ("subnets",),
    operator_rules=PROVIDER,
)
SUBNET = Resource(
    "subnet",
    selectors.subnets_for,
    selectors.subnet_for,
    shapes.subnet,
    {
        **STANDARD,
        "network_id": Column("network_id", identity),
        "ip_version": Column("ip_version", number),
        "cidr": Column("cidr"),
        "gateway_ip": Column("gateway_ip", address),
        "enable_dhcp": Column("enable_dhcp", boolean),
        "shared": Column("network__shared", boolean),
    },
    sort_keys={**SORT_KEYS, "cidr": "cidr", "network_id": "network_id", "ip_version": "ip_version"},
)
PORT = Resource(
    "port",
    selectors.ports_for,
    selectors.port_for,
    shapes.port,
    {
        **STANDARD,
        "network_id": Column("network_id", identity),
        "mac_address": Column("mac_address", lower),
        "admin_state_up": Column("admin_state_up", boolean),
        "status": Column("status"),
        "device_id": Column("device_id", identity),
        "device_owner": Column("device_owner"),
        "fixed_ips:ip_address": Column("fixed_ips__address", address),
        "fixed_ips:subnet_id": Column("fixed_ips__subnet_id", identity),
        "security_groups": Column("security_groups", identity),
        "security_group_ids": Column("security_groups", identity),
        "port_security_enabled": Constant(value=True, read=boolean),
    },
    {"binding:host_id": Column("host")},
    {**SORT_KEYS, "mac_address": "mac_address", "network_id": "network_id", "status": "status"},
    operator_rules=BINDING,
)
SECURITY_GROUP = Resource(
    "security_group",
    selectors.security_groups_for,
    selectors.security_group_for,
    shapes.security_group,
    {
        **STANDARD,
        "shared": Constant(value=False, read=boolean),
        "stateful": Constant(value=True, read=boolean),
    },
    makes_default_group=True,
)
SECURITY_GROUP_RULE = Resource(
    "security_group_rule",
    selectors.security_group_rules_for,
    selectors.security_group_rule_for,
    shapes.security_group_rule,
    {
        "id": Column("id", identity),
        "description": Column("description"),
        "project_id": Column("group__project_id", identity),
        "tenant_id": Column("group__project_id", identity),
        "security_group_id": Column("group_id", identity),
        "direction": Column("direction"),
        "ethertype": Column("ethertype"),
        "protocol": Column("protocol", lower),
        "port_range_min": Column("port_range_min", number),
        "port_range_max": Column("port_range_max", number),
        "remote_ip_prefix": Column("remote_ip_prefix"),
        "remote_group_id": Column("remote_group_id", identity),
    },
    sort_keys={name: name for name in ("id", "direction", "ethertype", "protocol", "created_at")},
    makes_default_group=True,
)
RESOURCES = (NETWORK, SUBNET, PORT, SECURITY_GROUP, SECURITY_GROUP_RULE)
