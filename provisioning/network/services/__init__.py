"""Everything that writes networks, subnets, ports, addresses and security groups."""

from provisioning.network.services.networks import create_network, create_subnet
from provisioning.network.services.ports import (
    allocate,
    bind,
    bind_ports,
    create_port,
    new_ports,
    release,
    set_ports_status,
)
from provisioning.network.services.security_groups import allow_ingress, ensure_default_security_group

__all__ = [
    "allocate",
    "allow_ingress",
    "bind",
    "bind_ports",
    "create_network",
    "create_port",
    "create_subnet",
    "ensure_default_security_group",
    "new_ports",
    "release",
    "set_ports_status",
]
