"""Validates the networks, ports, addresses and security groups of a launch request; writes nothing."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from django.db.models import CharField, UUIDField

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.network import addressing
from provisioning.network.errors import (
    AmbiguousNetworkError,
    PortRequiresFixedIPError,
    SecurityGroupCannotBeAppliedError,
)
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup
from provisioning.network.selectors.membership import check_one_kind
from provisioning.network.selectors.records import network_by_rights, ports_for, security_groups_for, usable_by

Asked = Sequence[Mapping[str, str | None]] | Literal["auto", "none"] | None

MAX_INTERFACES = 8
"""Limit of a server's interfaces: one request must not exhaust the addresses of a network that projects share."""


def requested_networks_for(context: RequestContext, requested: Asked, *, count: int = 1) -> list[dict[str, str | None]]:
    """Return the interfaces of a launch request: ``{"network_id", "port_id", "fixed_ip"}``, ids with dashes.

    None and ``auto`` choose the only usable network (if there is none, None returns no interfaces and ``auto`` raises
    an error); ``none`` returns no interfaces. The key ``anywhere`` is set for a network that the project may not use,
    but the caller may. ``count``: number of instances in the request, which cannot share a port or an address.

    Raises InvalidInputError for ``networks``, AmbiguousNetworkError if several networks are usable,
    ExternalNetworkAttachForbiddenError.
    """
    if requested == "none":
        return []
    if requested is None or requested == "auto":
        return _only_network(context, must=requested == "auto")
    if len(requested) > MAX_INTERFACES:
        raise InvalidInputError(f"A server has at most {MAX_INTERFACES} network interfaces.", field="networks")
    networks = {network.id: network for network in _usable(context)}
    result = [_checked(context, entry, networks, count) for entry in requested]
    for key in ("port_id", "fixed_ip"):
        values = [(entry["network_id"], entry[key]) for entry in result if entry[key]]
        if len(values) != len(set(values)):
            msg = f"A {key.removesuffix('_id').replace('_', ' ')} is requested twice."
            raise InvalidInputError(msg, field="networks")
    return result


def security_group_ids_for(
    context: RequestContext, requested: Iterable[str] | None, interfaces: Sequence[Mapping[str, str | None]] = ()
) -> list[str]:
    """Return the ids, with dashes, of the project's groups with these names or ids, each once.

    The result is empty if no groups are requested, or only ``default`` before this group exists; it then means the
    default group. ``interfaces``: the interfaces of the same request. Raises InvalidInputError for ``security_groups``,
    SecurityGroupConflictError for stateful together with stateless groups, SecurityGroupCannotBeAppliedError if one of
    the interfaces would get a port without port security.
    """
    needed = list(dict.fromkeys(requested or ()))
    if not needed:
        return []
    networks = {chosen for each in interfaces if (chosen := each.get("network_id"))}
    # The default group is accepted without port security, as in Nova.
    if needed != ["default"] and Network.objects.filter(id__in=networks, port_security_enabled=False).exists():
        raise SecurityGroupCannotBeAppliedError
    by_name: dict[str, list[SecurityGroup]] = {}
    by_id: dict[str, SecurityGroup] = {}
    for group in security_groups_for(context).prefetch_related(None):
        by_name.setdefault(group.name, []).append(group)
        by_id[str(group.id)] = group
    if needed == ["default"] and "default" not in by_name:
        return []
    groups = [_group(name, by_id, by_name) for name in needed]
    check_one_kind(groups)
    return list(dict.fromkeys(str(group.id) for group in groups))


def _group(
    requested: str, by_id: Mapping[str, SecurityGroup], by_name: Mapping[str, Sequence[SecurityGroup]]
) -> SecurityGroup:
    if requested in by_id:
        return by_id[requested]
    named = by_name.get(requested, [])
    if len(named) == 1:
        return named[0]
    msg = (
        f"Multiple security groups found matching '{requested}'. Use an ID to be more specific."
        if named
        else f"Security group {requested} not found."
    )
    raise InvalidInputError(msg, field="security_groups")


def _only_network(context: RequestContext, *, must: bool) -> list[dict[str, str | None]]:
    """Return the only usable network, as a list of interfaces. Raises AmbiguousNetworkError if there are several, and
    InvalidInputError if there is none and ``must`` is True.
    """
    networks = _usable(context)[:2]
    if len(networks) > 1:
        msg = "Multiple possible networks found, use a Network ID to be more specific."
        raise AmbiguousNetworkError(msg, field="networks")
    if not networks and must:
        msg = "No network is available to this project; set networks to 'none' to launch without one."
        raise InvalidInputError(msg, field="networks")
    return [{"network_id": str(network.id), "port_id": None, "fixed_ip": None} for network in networks]


def _usable(context: RequestContext) -> list[Network]:
    project = context.project_id or NOBODY
    return _USABLE(project_id=project, project=project.hex)


_USABLE = Prepared(usable_by, project_id=UUIDField(), project=CharField())


def _checked(
    context: RequestContext, entry: Mapping[str, str | None], networks: Mapping[uuid.UUID, Network], count: int
) -> dict[str, str | None]:
    port_id, network_id, fixed_ip = entry.get("port_id"), entry.get("network_id"), entry.get("fixed_ip")
    if (port_id or fixed_ip) and count > 1:
        msg = "A port or a fixed IP address cannot be requested for more than one instance."
        raise InvalidInputError(msg, field="networks")
    if port_id:
        port = _port(context, port_id)
        return {"network_id": None, "port_id": str(port.id), "fixed_ip": None}
    own = networks.get(read_id(network_id) or NOBODY)
    network = own or network_by_rights(context, network_id, field="networks")
    if network is None:
        raise InvalidInputError(f"Network {network_id} could not be found.", field="networks")
    if fixed_ip:
        subnet, address = addressing.place_of(network.subnets.all(), fixed_ip)
        number = addressing.number_of(subnet, address)
        if FixedIP.objects.filter(subnet=subnet, number=number).exists():
            raise InvalidInputError(f"Fixed IP address {fixed_ip} is already in use.", field="networks")
        fixed_ip = address
    requested = {"network_id": str(network.id), "port_id": None, "fixed_ip": fixed_ip}
    return requested | ({} if own else {"anywhere": "yes"}) | _of_subnet(network, entry.get("subnet_id"))


def _of_subnet(network: Network, subnet_id: str | None) -> dict[str, str | None]:
    """Return the requested subnet, if any. Raises InvalidInputError if it does not belong to the network."""
    if not subnet_id:
        return {}
    requested = read_id(subnet_id)
    if requested not in {subnet.id for subnet in network.subnets.all()}:
        raise InvalidInputError(f"Subnet {subnet_id} could not be found.", field="networks")
    return {"subnet_id": str(requested)}


def _port(context: RequestContext, port_id: str) -> Port:
    """Return a port of the project that has an address and is not in use."""
    port = ports_for(context).prefetch_related(None).filter(pk=read_id(port_id) or NOBODY).first()
    if port is None:
        raise InvalidInputError(f"Port id {port_id} could not be found.", field="networks")
    if port.device_id is not None:
        raise InvalidInputError(f"Port {port_id} is still in use.", field="networks")
    if not port.fixed_ips.exists():
        raise PortRequiresFixedIPError(port.id)
    return port
