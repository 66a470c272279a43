"""Security groups and addresses of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.compute.server_actions.registry import Action, Handler, accepted
from portal.api.compute.servers.fields import IPV4, IPV6
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.actions.interfaces import add_fixed_ip, remove_fixed_ip
from provisioning.compute.actions.security_groups import add_security_group, remove_security_group
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network import services
from provisioning.network.models import FloatingIP
from provisioning.network.selectors import routing

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

LAST_PROXY = (2, 43)
"""The last version with the actions on addresses."""
ADDRESS: Schema = {"anyOf": [IPV4, IPV6]}


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


GROUP = _object({"name": {"type": "string", "minLength": 1, "maxLength": 255}}, "name")
ADD_FIXED_IP = _object({"networkId": {"type": ["string", "number"], "minLength": 1, "maxLength": 36}}, "networkId")
REMOVE_FIXED_IP = _object({"address": ADDRESS}, "address")
ADD_FLOATING_IP = _object({"address": ADDRESS, "fixed_address": ADDRESS}, "address")
REMOVE_FLOATING_IP = _object({"address": ADDRESS}, "address")


def _by(service: Callable[[RequestContext, str, str], None], field: str) -> Handler:
    """Return a handler that calls ``service`` with the server and the body's field ``field``."""

    def handler(view: ServerView, server_id: str, body: Any) -> Response:
        service(view.context, server_id, str(body[field]))
        return accepted()

    return handler


def _add_floating_ip(view: ServerView, server_id: str, body: Any) -> Response:
    """Associate a floating IP with an address of a server, by default its first IPv4 address."""
    fixed = {
        address.address: port for port in network.interfaces_of(UUID(server_id)) for address in port.fixed_ips.all()
    }
    if not fixed:
        raise InvalidInputError("No fixed IPs associated to instance", field="address")
    first = next((address for address in fixed if ":" not in address), next(iter(fixed)))
    requested = body.get("fixed_address", first)
    if requested not in fixed:
        raise InvalidInputError("Specified fixed address not assigned to instance", field="fixed_address")
    floating = _floating_ip(view, server_id, body["address"])
    try:
        services.associate(floating, fixed[requested], requested)
    except (ConflictError, InvalidInputError, NotFoundError) as error:
        msg = f"Unable to associate floating IP {floating.address} to fixed IP {requested} for instance {server_id}."
        raise InvalidInputError(f"{msg} Error: {error.message}", field="address") from error
    return accepted()


def _remove_floating_ip(view: ServerView, server_id: str, body: Any) -> Response:
    """Disassociate a floating IP from a server."""
    floating = _floating_ip(view, server_id, body["address"])
    if floating.fixed_port is None or str(floating.fixed_port.device_id) != server_id:
        msg = f"Floating IP {floating.address} is not associated with instance {server_id}."
        raise ConflictError(msg, field="address")
    services.disassociate(floating)
    return accepted()


def _floating_ip(view: ServerView, server_id: str, address: str) -> FloatingIP:
    """Return the floating IP in the server's project, if the caller may update it."""
    owner = view.context.in_project(selectors.instance_for(view.context, server_id).project_id)
    floating = routing.floating_ip_at(owner, address)
    policy.enforce(view.context, "update_floatingip", {"project_id": floating.project_id})
    return floating


ACTIONS = {
    "addSecurityGroup": Action("os_compute_api:os-security-groups:add", GROUP, _by(add_security_group, "name")),
    "removeSecurityGroup": Action(
        "os_compute_api:os-security-groups:remove", GROUP, _by(remove_security_group, "name")
    ),
    "addFixedIp": Action(
        "os_compute_api:os-multinic:add", ADD_FIXED_IP, _by(add_fixed_ip, "networkId"), maximum=LAST_PROXY
    ),
    "removeFixedIp": Action(
        "os_compute_api:os-multinic:remove", REMOVE_FIXED_IP, _by(remove_fixed_ip, "address"), maximum=LAST_PROXY
    ),
    "addFloatingIp": Action(
        "os_compute_api:os-floating-ips:add", ADD_FLOATING_IP, _add_floating_ip, maximum=LAST_PROXY
    ),
    "removeFloatingIp": Action(
        "os_compute_api:os-floating-ips:remove", REMOVE_FLOATING_IP, _remove_floating_ip, maximum=LAST_PROXY
    ),
}
