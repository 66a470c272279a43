"""Network interfaces that a caller may see, and the addresses of a request."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet

from portal.api.ec2 import names
from portal.api.ec2.actions.security_groups.lookups import Groups
from portal.api.ec2.actions.vpcs.lookups import enforce, owner_of
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from provisioning.network import addressing, selectors
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup
from provisioning.network.records.owners import COMPUTE, OF_THE_CLOUD
from provisioning.network.selectors.vpcs import default_group_of
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.ports.port_addresses import MOST

LONGEST = 255
"""Maximum number of characters of a description."""
Entries = list[dict[str, object]]
"""Addresses as arguments of the services."""


def interface_rows(call: Call) -> QuerySet[Port]:
    """Return the project's ports with related records prefetched, except ports that belong to the cloud itself."""
    rows = selectors.ports_for(call.context).exclude(OF_THE_CLOUD).select_related("network")
    return rows.prefetch_related("fixed_ips__subnet")


def interface_named(call: Call, ec2_id: str) -> Port:
    """Return an interface of the project. Raises Ec2Error."""
    return names.one(names.INTERFACE, ec2_id, interface_rows(call))


def plain(address: str, version: int) -> str:
    """Return an address in normal form. Raises Ec2Error unless it is valid for this IP version."""
    try:
        found = addressing.read_address(address)
    except ValueError:
        found = None
    if found is None or found.version != version:
        raise Ec2Error("InvalidParameterValue", f"Address {address[:60]} is not a valid IPv{version} address.")
    return str(found)


def is_attached(port: Port) -> bool:
    """Whether the port is attached to an instance."""
    return port.device_id is not None and port.device_owner.startswith(COMPUTE)


def is_free(port: Port) -> bool:
    """Whether the port is not in use."""
    return port.device_id is None and not port.device_text


def fixed_of(port: Port, version: int) -> list[FixedIP]:
    """Return the addresses of an IP version, the primary one first."""
    every = sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)
    return [fixed for fixed in every if fixed.subnet.ip_version == version]


def kept(port: Port) -> Entries:
    """Return the current addresses of a port, except those that its guest configures itself."""
    every = sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)
    return [
        {"subnet_id": fixed.subnet_id, "ip_address": fixed.address} for fixed in every if not is_stateless(fixed.subnet)
    ]


def check_addresses(call: Call, verb: str, network: Network, requested: Sequence[dict[str, object]]) -> None:
    """Raise Ec2Error for more addresses than a port may have, and for specified addresses unless the policy allows
    them.
    """
    if len(requested) > MOST:
        raise Ec2Error("PrivateIpAddressLimitExceeded", f"An interface has at most {MOST} addresses here")
    target = owner_of(network) | {"project_id": call.project_id}
    enforce(call, target, f"{verb}_port:fixed_ips", f"{verb}_port:fixed_ips:subnet_id")
    if any("ip_address" in entry for entry in requested):
        enforce(call, target, f"{verb}_port:fixed_ips:ip_address")


def groups_named(call: Call, specified: Sequence[str]) -> list[SecurityGroup]:
    """Return the security groups with these ids, without duplicates. Raises Ec2Error."""
    groups = Groups(call)
    return list({group.id: group for group in (groups.by_id(each) for each in specified)}.values())


def check_description(text: str) -> str:
    if len(text) > LONGEST:
        raise errors.invalid_value("Description", text, f"It has more than {LONGEST} characters.")
    return text


def value_of(call: Call, name: str) -> Any:
    """Return the ``Value`` of an attribute. Raises Ec2Error if the attribute has none."""
    found = call.arguments[name].get("Value")
    if found is None:
        raise errors.missing_parameter(f"{name}.Value")
    return found


def default_groups(call: Call, network_id: uuid.UUID) -> list[SecurityGroup] | None:
    """Return the default group of a VPC, for an interface without specified groups. None means the project's default
    group.
    """
    group = default_group_of(network_id)
    return [group] if group is not None and group.project_id == call.project_id else None
