"""Everything that writes networks, subnets, ports, addresses and security groups."""

from provisioning.network.services.interfaces import (
    add_address,
    add_group,
    add_interface,
    remove_address,
    remove_group,
    remove_interface,
    set_interface_leaving,
    set_interface_status,
)
from provisioning.network.services.networks import create_network, create_subnet
from provisioning.network.services.ports import (
    OF_PORTS,
    allocate,
    bind,
    bind_ports,
    create_port,
    quota_of,
    release,
    set_ports_status,
)
from provisioning.network.services.security_groups import allow_ingress, ensure_default_security_group

__all__ = [
    "OF_PORTS",
    "add_address",
    "add_group",
    "add_interface",
    "allocate",
    "allow_ingress",
    "bind",
    "bind_ports",
    "create_network",
    "create_port",
    "create_subnet",
    "ensure_default_security_group",
    "quota_of",
    "release",
    "remove_address",
    "remove_group",
    "remove_interface",
    "set_interface_leaving",
    "set_interface_status",
    "set_ports_status",
]
