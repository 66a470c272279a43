"""Everything that writes networks, subnets, ports, addresses and security groups."""

from provisioning.network.services.cards import (
    add_address,
    add_card,
    add_group,
    remove_address,
    remove_card,
    remove_group,
    set_card_leaving,
    set_card_status,
)
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
    "add_address",
    "add_card",
    "add_group",
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
    "remove_address",
    "remove_card",
    "remove_group",
    "set_card_leaving",
    "set_card_status",
    "set_ports_status",
]
