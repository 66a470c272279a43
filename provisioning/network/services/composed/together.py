"""Records created together, all or none: networks with subnets, routers with interfaces, groups with rules."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from provisioning.network.models import Network, Router, SecurityGroup, Subnet
from provisioning.network.records.flows import Flow
from provisioning.network.services.composed.port_changes import create_port
from provisioning.network.services.networks.networks import NetworkFields, create_network
from provisioning.network.services.networks.subnets import SubnetFields, create_subnet
from provisioning.network.services.routing.router_interfaces import (
    RouterInterface,
    add_interface_by_port,
    add_interface_by_subnet,
)
from provisioning.network.services.routing.routers import Gateway, create_router
from provisioning.network.services.security.security_group_rules import RequestedRule, add_missing_rules
from provisioning.network.services.security.security_groups import create_security_group


@dataclass(frozen=True, slots=True)
class FirstSubnet:
    """A subnet that is created with its network."""

    cidr: str
    fields: SubnetFields


@transaction.atomic
def create_network_with_subnets(
    project_id: uuid.UUID,
    name: str,
    fields: NetworkFields,
    subnets: Sequence[FirstSubnet],
    router: Router | None = None,
) -> Network:
    """Create a network with subnets, and connect ``router`` to those that have a gateway.

    Raises the errors of ``create_network``, ``create_subnet`` and ``add_interface_by_subnet``.
    """
    network = create_network(project_id, name, **fields)
    for each in subnets:
        subnet = create_subnet(network, each.cidr, **each.fields)
        if router is not None and subnet.gateway_ip is not None:
            add_interface_by_subnet(router, subnet)
    return network


@transaction.atomic
def create_connected_router(
    project_id: uuid.UUID, subnets: Sequence[Subnet], *, gateway: Gateway | None = None, **columns: Any
) -> Router:
    """Create a router with interfaces on these subnets; ``columns``: name, description, admin_state_up.

    Raises the errors of ``create_router`` and ``add_interface_by_subnet``.
    """
    router = create_router(project_id, gateway=gateway, **columns)
    for subnet in subnets:
        add_interface_by_subnet(router, subnet)
    return router


@transaction.atomic
def add_interface_at(router: Router, subnet: Subnet, address: str | None = None) -> RouterInterface:
    """Connect a router to a subnet with an address other than the gateway's: ``address``, or a free one.

    Raises the errors of ``create_port`` and ``add_interface_by_port``.
    """
    fixed_ip = {"subnet_id": subnet.id} | ({"ip_address": address} if address else {})
    port = create_port(router.project_id, subnet.network, fixed_ips=[fixed_ip], groups=[])
    return add_interface_by_port(router, port)


@transaction.atomic
def create_group_allowing(project_id: uuid.UUID, name: str, flows: Sequence[Flow]) -> SecurityGroup:
    """Create a security group that allows these flows, in addition to the rules of every new group.

    Raises the errors of ``create_security_group`` and ``create_security_group_rules``.
    """
    group = create_security_group(project_id, name)
    if flows:
        add_missing_rules([RequestedRule(group, flow) for flow in flows])
    return group
