"""Networks, subnets and routers by EC2 id, with the policy check for changes."""

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import netaddr
from django.conf import settings

from portal.api.ec2 import names
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from provisioning.ec2 import ids
from provisioning.hosts import selectors as hosts
from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.identity import policy
from provisioning.network import addressing
from provisioning.network.models import Network, Subnet
from provisioning.network.selectors.vpcs import Table, VpcNetwork, tables_of, vpc_subnets_for, vpcs_for

LONGEST_PREFIX, SHORTEST_PREFIX = 28, 16
"""Prefix lengths of VPCs and subnets, as in EC2."""


def vpc_named(call: Call, ec2_id: str) -> VpcNetwork:
    """Return a VPC that the caller may see. Raises Ec2Error."""
    found = vpcs_for(call.context, [names.resource(names.VPC, ec2_id)])
    if not found:
        raise names.not_found(names.VPC, [ec2_id])
    return found[0]


def vpc_to_change(call: Call, ec2_id: str, *rules: str) -> VpcNetwork:
    """Return a VPC if the policy allows the caller to change it. Raises ForbiddenError for a VPC that another project
    shares.
    """
    vpc = vpc_named(call, ec2_id)
    enforce(call, owner_of(vpc.network), *rules)
    return vpc


def subnet_named(call: Call, ec2_id: str) -> Subnet:
    """Return a subnet that the caller may see. Raises Ec2Error."""
    return names.one(names.SUBNET, ec2_id, vpc_subnets_for(call.context))


def table_named(call: Call, ec2_id: str) -> Table:
    """Return a router on a network that the caller may see, as a route table. Raises Ec2Error."""
    requested = names.resource(names.ROUTE_TABLE, ec2_id)
    found = next((table for table in tables_of(vpcs_for(call.context)) if table.router.id == requested), None)
    if found is None:
        raise names.not_found(names.ROUTE_TABLE, [ec2_id])
    return found


def owner_of(network: Network) -> dict[str, object]:
    """Return the policy target of a resource on a network."""
    owner = network.project_id
    return {"project_id": owner, "network:project_id": owner, "network:tenant_id": owner}


def enforce(call: Call, target: Mapping[str, object], *rules: str) -> None:
    for rule in rules:
        policy.enforce(call.context, rule, target)


def zone_of_networks() -> str:
    """Return the zone in which subnets are shown: EC2 shows one zone for each subnet, although the subnets exist in
    every zone.
    """
    default, zones = settings.SCHEDULER_DEFAULT_ZONE or DEFAULT_ZONE, hosts.availability_zones()
    return default if default in zones or not zones else zones[0]


def read_range(parameter: str, text: str, code: str) -> netaddr.IPNetwork:
    """Read an IPv4 range from /16 to /28; host bits are cleared. Raises Ec2Error, with ``code`` for a wrong size."""
    try:
        network = addressing.read_prefix(text).cidr
    except ValueError:
        raise errors.invalid_value(parameter, text, "This is not a valid CIDR block.") from None
    if network.version != 4:
        raise errors.invalid_value(parameter, text, "This is not a valid IPv4 CIDR block.")
    if not SHORTEST_PREFIX <= network.prefixlen <= LONGEST_PREFIX:
        raise Ec2Error(code, f"The CIDR '{text}' is invalid: the prefix length must be from 16 to 28.")
    addressing.parse_cidr(str(network))
    return network


def unless(call: Call, parameter: str, *, present: Any, why: str) -> None:
    """Raise Ec2Error if an argument differs from the only supported value."""
    specified = call.get(parameter)
    requested = specified.get("Value") if isinstance(specified, dict) else specified
    if requested is not None and requested != present:
        raise errors.unsupported(f"{parameter}: {why}")


def range_id(kind: names.Kind, resource: uuid.UUID, cidr: str) -> str:
    """Return the id of the association of a range with a VPC or a subnet, which is stable as long as both exist."""
    digits = hashlib.sha256(f"{resource.hex} {cidr}".encode()).hexdigest()[: ids.DIGITS]
    return f"{kind.prefix}-cidr-assoc-{digits}"
