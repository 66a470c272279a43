"""Validates a requested interface of a server, and finds a security group by id or name; writes nothing."""

from typing import NotRequired, TypedDict

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.network import addressing
from provisioning.network.errors import (
    NetworkNotFoundError,
    PortNotFoundError,
    PortRequiresFixedIPError,
    SecurityGroupNotFoundError,
)
from provisioning.network.models import FixedIP, Network, SecurityGroup
from provisioning.network.selectors.records import (
    WORDS,
    network_by_rights,
    ports_for,
    security_groups_for,
    usable_networks_for,
)


class Interface(TypedDict):
    """One interface: a network, optionally with a fixed address, or a port; ids with dashes."""

    network_id: str | None
    port_id: str | None
    fixed_ip: str | None
    anywhere: NotRequired[str]
    """Set if the project may not use the network, but the caller may (``network_by_rights``)."""


def interface_for(
    context: RequestContext, network_id: str | None, port_id: str | None, fixed_ip: str | None
) -> Interface:
    """Return the requested interface for a server of the caller's project; by default on the project's only network.

    Raises NetworkNotFoundError, ExternalNetworkAttachForbiddenError, PortNotFoundError, ConflictError for a port or an
    address in use, and InvalidInputError for an address outside the network, a port without an address, and if no
    network is named and the project has none or several.
    """
    if port_id is not None:
        return _port(context, port_id)
    networks = list(usable_networks_for(context).prefetch_related("subnets"))
    if network_id is None:
        return Interface(network_id=str(_only(context, networks).id), port_id=None, fixed_ip=None)
    own = next((network for network in networks if network.id == read_id(network_id)), None)
    network = own or network_by_rights(context, network_id, field="net_id")
    if network is None:
        raise NetworkNotFoundError(WORDS[NetworkNotFoundError].format(network_id), field="net_id")
    interface = Interface(network_id=str(network.id), port_id=None, fixed_ip=_address(network, fixed_ip))
    return interface if own else Interface(**interface, anywhere="yes")


def security_group_named(context: RequestContext, requested: str) -> SecurityGroup:
    """Return the project's group with this id or name.

    Raises SecurityGroupNotFoundError, and ConflictError if several groups have this name.
    """
    rows = security_groups_for(context).prefetch_related(None)
    by_id = rows.filter(pk=read_id(requested) or NOBODY).first()
    if by_id is not None:
        return by_id
    named = list(rows.filter(name=requested)[:2])
    if len(named) > 1:
        msg = f"Multiple security groups found matching '{requested}'. Use an ID to be more specific."
        raise ConflictError(msg, field="name")
    if not named:
        project = (context.project_id or NOBODY).hex
        raise SecurityGroupNotFoundError(f"Security group {requested} is not found for project {project}", field="name")
    return named[0]


def _port(context: RequestContext, port_id: str) -> Interface:
    port = ports_for(context).prefetch_related(None).filter(pk=read_id(port_id) or NOBODY).first()
    if port is None:
        raise PortNotFoundError(f"Port id {port_id} could not be found.", field="port_id")
    if port.device_id is not None:
        raise ConflictError(f"Port {port.id} is still in use.", field="port_id")
    if not port.fixed_ips.exists():
        raise PortRequiresFixedIPError(port.id, field="port_id")
    return Interface(network_id=None, port_id=str(port.id), fixed_ip=None)


def _only(context: RequestContext, networks: list[Network]) -> Network:
    if len(networks) > 1:
        msg = "Multiple possible networks found, use a Network ID to be more specific."
        raise InvalidInputError(msg, field="net_id")
    if not networks:
        project = (context.project_id or NOBODY).hex
        msg = f"No specific network was requested and none are available for project '{project}'."
        raise InvalidInputError(msg, field="net_id")
    return networks[0]


def _address(network: Network, fixed_ip: str | None) -> str | None:
    if fixed_ip is None:
        return None
    subnet, address = addressing.place_of(network.subnets.all(), fixed_ip)
    number = addressing.number_of(subnet, address)
    if FixedIP.objects.filter(subnet=subnet, number=number).exists():
        raise ConflictError(f"Fixed IP address {fixed_ip} is already in use.", field="fixed_ips")
    return address
