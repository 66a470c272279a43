"""Services that write networks, subnets, ports, addresses and security groups."""

from provisioning.network.services.addressing.address_scopes import (
    create_address_scope,
    delete_address_scope,
    update_address_scope,
)
from provisioning.network.services.addressing.subnet_pools import (
    add_prefixes,
    create_subnet_pool,
    delete_subnet_pool,
    remove_prefixes,
    update_subnet_pool,
)
from provisioning.network.services.base.records import create_all
from provisioning.network.services.base.tags import add_tags, remove_tag, set_tags
from provisioning.network.services.composed.port_changes import create_port, delete_port, update_port
from provisioning.network.services.composed.project_networks import allocate_topology, check_topology, delete_topology
from provisioning.network.services.composed.rbac_policies import (
    create_rbac_policy,
    delete_rbac_policy,
    update_rbac_policy,
)
from provisioning.network.services.composed.together import (
    FirstSubnet,
    add_interface_at,
    create_connected_router,
    create_group_allowing,
    create_network_with_subnets,
)
from provisioning.network.services.floating_ips.automatic_floating_ips import (
    automatic_network,
    lead_automatic,
    take_automatic,
)
from provisioning.network.services.floating_ips.floating_ips import (
    associate,
    create_floating_ip,
    delete_floating_ip,
    disassociate,
    release_floating_ips,
    update_floating_ip,
)
from provisioning.network.services.floating_ips.port_forwardings import (
    create_port_forwarding,
    delete_port_forwarding,
    update_port_forwarding,
)
from provisioning.network.services.networks.networks import create_network, delete_network, update_network
from provisioning.network.services.networks.subnets import create_subnet, delete_subnet, update_subnet
from provisioning.network.services.ports.interfaces import (
    add_address,
    add_group,
    add_interface,
    note_lease,
    remove_address,
    remove_group,
    remove_interface,
    set_interface_leaving,
    set_interface_status,
)
from provisioning.network.services.ports.kept_ports import (
    KeptPort,
    give_addresses_back,
    give_port_back,
    hold_addresses_back,
)
from provisioning.network.services.ports.ports import (
    OF_PORTS,
    allocate,
    bind,
    bind_ports,
    quota_of,
    release,
    set_dns_name,
    set_ports_status,
)
from provisioning.network.services.routing.router_interfaces import (
    RouterInterface,
    add_interface_by_port,
    add_interface_by_subnet,
    remove_interface_by_port,
    remove_interface_by_subnet,
)
from provisioning.network.services.routing.routers import (
    Gateway,
    add_routes,
    create_router,
    delete_router,
    remove_routes,
    update_router,
)
from provisioning.network.services.security.address_groups import (
    add_addresses,
    create_address_group,
    delete_address_group,
    remove_addresses,
    update_address_group,
)
from provisioning.network.services.security.default_rules import (
    create_default_rule,
    default_rule,
    default_rules,
    delete_default_rule,
)
from provisioning.network.services.security.security_group_rules import (
    WantedRule,
    add_missing_rules,
    allow_ingress,
    change_security_group_rule,
    create_security_group_rules,
    delete_security_group_rule,
    describe_security_group_rules,
)
from provisioning.network.services.security.security_groups import (
    create_security_group,
    delete_security_group,
    ensure_default_security_group,
    update_security_group,
)

__all__ = [
    "OF_PORTS",
    "FirstSubnet",
    "Gateway",
    "KeptPort",
    "RouterInterface",
    "WantedRule",
    "add_address",
    "add_addresses",
    "add_group",
    "add_interface",
    "add_interface_at",
    "add_interface_by_port",
    "add_interface_by_subnet",
    "add_missing_rules",
    "add_prefixes",
    "add_routes",
    "add_tags",
    "allocate",
    "allocate_topology",
    "allow_ingress",
    "associate",
    "automatic_network",
    "bind",
    "bind_ports",
    "change_security_group_rule",
    "check_topology",
    "create_address_group",
    "create_address_scope",
    "create_all",
    "create_connected_router",
    "create_default_rule",
    "create_floating_ip",
    "create_group_allowing",
    "create_network",
    "create_network_with_subnets",
    "create_port",
    "create_port_forwarding",
    "create_rbac_policy",
    "create_router",
    "create_security_group",
    "create_security_group_rules",
    "create_subnet",
    "create_subnet_pool",
    "default_rule",
    "default_rules",
    "delete_address_group",
    "delete_address_scope",
    "delete_default_rule",
    "delete_floating_ip",
    "delete_network",
    "delete_port",
    "delete_port_forwarding",
    "delete_rbac_policy",
    "delete_router",
    "delete_security_group",
    "delete_security_group_rule",
    "delete_subnet",
    "delete_subnet_pool",
    "delete_topology",
    "describe_security_group_rules",
    "disassociate",
    "ensure_default_security_group",
    "give_addresses_back",
    "give_port_back",
    "hold_addresses_back",
    "lead_automatic",
    "note_lease",
    "quota_of",
    "release",
    "release_floating_ips",
    "remove_address",
    "remove_addresses",
    "remove_group",
    "remove_interface",
    "remove_interface_by_port",
    "remove_interface_by_subnet",
    "remove_prefixes",
    "remove_routes",
    "remove_tag",
    "set_dns_name",
    "set_interface_leaving",
    "set_interface_status",
    "set_ports_status",
    "set_tags",
    "take_automatic",
    "update_address_group",
    "update_address_scope",
    "update_floating_ip",
    "update_network",
    "update_port",
    "update_port_forwarding",
    "update_rbac_policy",
    "update_router",
    "update_security_group",
    "update_subnet",
    "update_subnet_pool",
]
