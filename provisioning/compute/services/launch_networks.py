"""From the networks and security groups that a launch names to ids that its project may use."""

from __future__ import annotations

import ipaddress
import uuid

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute.requests import NetworkRequest, Networks
from provisioning.network import selectors as network
from provisioning.network.models import FixedIP, Network, Port, Subnet

FIELD = "networks"


def resolve(context: RequestContext, networks: Networks, *, count: int) -> list[dict[str, str]]:
    """Return ``[{"network_id" | "port_id", "fixed_ip"}]`` in the order of the cards.

    Raises InvalidInputError for what does not exist for the caller, ConflictError for what is taken or ambiguous;
    ``field`` is
    ``networks``.
    """
    if networks == "none":
        return []
    if networks is None or networks == "auto":
        return _automatic(context, required=networks == "auto")
    if count > 1 and any(item.port_id or item.fixed_ip for item in networks):
        raise InvalidInputError("A port or a fixed address can be used by one server only; ask for one.", field=FIELD)
    resolved = [_one(context, item) for item in networks]
    for key in ("port_id", "fixed_ip"):
        named = [item[key] for item in resolved if key in item]
        if len(set(named)) < len(named):
            raise InvalidInputError(f"The same {key.replace('_', ' ')} was given twice.", field=FIELD)
    return resolved


def _automatic(context: RequestContext, *, required: bool) -> list[dict[str, str]]:
    """Take the project's only network: its own ones come before shared ones."""
    usable = list(network.usable_networks_for(context))
    own = [item for item in usable if item.project_id == context.project_id]
    candidates = own or usable
    if len(candidates) > 1:
        raise ConflictError("Multiple possible networks found, use a network id to be more specific.", field=FIELD)
    if not candidates:
        if required:
            raise InvalidInputError("There is no network that the project can use.", field=FIELD)
        return []
    return [{"network_id": str(candidates[0].id)}]


def _one(context: RequestContext, item: NetworkRequest) -> dict[str, str]:
    if item.port_id:
        return _port(context, item.port_id)
    if not item.network_id:
        raise InvalidInputError("A network card needs a network or a port.", field=FIELD)
    found = _network(context, item.network_id)
    subnets = list(Subnet.objects.filter(network=found))
    if not subnets:
        raise InvalidInputError(
            f"Network {item.network_id} requires a subnet in order to boot servers on.", field=FIELD
        )
    if item.fixed_ip is None:
        return {"network_id": str(found.id)}
    return {"network_id": str(found.id), "fixed_ip": _address(item.fixed_ip, subnets)}


def _network(context: RequestContext, network_id: str) -> Network:
    try:
        return network.network_for(context, network_id)
    except NotFoundError as error:
        raise InvalidInputError(f"Network {network_id} could not be found.", field=FIELD) from error


def _port(context: RequestContext, port_id: str) -> dict[str, str]:
    try:
        number = uuid.UUID(port_id)
        port = Port.objects.get(id=number, project_id=context.project_id)
    except (ValueError, Port.DoesNotExist) as error:
        raise InvalidInputError(f"Port {port_id} could not be found.", field=FIELD) from error
    if port.device_id is not None:
        raise ConflictError(f"Port {port_id} is still in use.", field=FIELD)
    return {"port_id": str(port.id)}


def _address(text: str, subnets: list[Subnet]) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not an IP address.", field=FIELD) from error
    home = next((subnet for subnet in subnets if address in ipaddress.ip_network(subnet.cidr)), None)
    if home is None:
        ranges = ", ".join(subnet.cidr for subnet in subnets)
        raise InvalidInputError(f"Address {address} is not in the network's range {ranges}.", field=FIELD)
    if str(address) == home.gateway_ip or FixedIP.objects.filter(subnet=home, number=int(address)).exists():
        raise ConflictError(f"Address {address} is already in use.", field=FIELD)
    return str(address)


def resolve_groups(context: RequestContext, names: tuple[str, ...] | None) -> list[str] | None:
    """Return the ids of security groups given by name or id; None when only the default group is meant.

    Raises InvalidInputError with field ``security_groups`` for an unknown one, ConflictError for a name that several
    groups have.
    """
    if names is None or set(names) <= {"default"}:
        return None
    groups = list(network.security_groups_for(context))
    return list(
        dict.fromkeys(
            _group([group.id for group in groups if name in (group.name, str(group.id))], name) for name in names
        )
    )


def _group(found: list[uuid.UUID], name: str) -> str:
    if not found:
        raise InvalidInputError(f"Security group {name!r} could not be found.", field="security_groups")
    if len(found) > 1:
        raise ConflictError(f"Multiple security groups are called {name!r}; use an id.", field="security_groups")
    return str(found[0])
