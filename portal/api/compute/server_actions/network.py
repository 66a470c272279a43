"""Security groups, addresses, console log and remote consoles of a server."""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from portal.api.compute.server_actions.registry import Action, Handler
from portal.api.compute.servers.guests import token_of
from portal.api.compute.servers.schemas import IPV4, IPV6
from portal.api.compute.servers.shapes import ServerView
from portal.api.frame import Json, Schema
from portal.common.http.public_url import public_url
from portal.common.websockets.console_urls import client_url
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.actions.interfaces import add_fixed_ip, remove_fixed_ip
from provisioning.compute.actions.security_groups import add_security_group, remove_security_group
from provisioning.compute.services.console import console_output
from provisioning.compute.services.remote_consoles import create_console
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network import services
from provisioning.network.models import FloatingIP
from provisioning.network.selectors import routing

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

    def handler(view: ServerView, server_id: str, body: Any) -> None:
        service(view.context, server_id, str(body[field]))

    return handler


def _add_floating_ip(view: ServerView, server_id: str, body: Any) -> None:
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


def _remove_floating_ip(view: ServerView, server_id: str, body: Any) -> None:
    """Disassociate a floating IP from a server."""
    floating = _floating_ip(view, server_id, body["address"])
    if floating.fixed_port is None or str(floating.fixed_port.device_id) != server_id:
        msg = f"Floating IP {floating.address} is not associated with instance {server_id}."
        raise ConflictError(msg, field="address")
    services.disassociate(floating)


def _floating_ip(view: ServerView, server_id: str, address: str) -> FloatingIP:
    """Return the floating IP in the server's project, if the caller may update it."""
    owner = view.context.in_project(selectors.instance_for(view.context, server_id).project_id)
    floating = routing.floating_ip_at(owner, address)
    policy.enforce(view.context, "update_floatingip", {"project_id": floating.project_id})
    return floating


_NETWORK = {
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


RULE = "os_compute_api:os-remote-consoles"


def _opening(protocol: str) -> Handler:
    def open_console(view: ServerView, server_id: str, body: Any) -> Json:
        made = create_console(view.context, server_id, protocol, body["type"], token_of(view))
        url = client_url(public_url(view.request), made.protocol, made.token)
        return {"console": {"type": made.console_type, "url": url}}

    return open_console


def _action(protocol: str, *types: str) -> Action:
    schema: Schema = {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": list(types)}},
        "required": ["type"],
        "additionalProperties": False,
    }
    return Action(RULE, schema, _opening(protocol), maximum=(2, 5))


MOST_LINES = 999_999_999
"""Larger than the number of lines of any log, and within the integer range of every host."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
"""Control characters that Nova removes from a log, including carriage returns and the start of escape sequences."""
OUTPUT = {
    "type": "object",
    "properties": {"length": {"type": ["integer", "string", "null"], "pattern": r"^(-1|[0-9]{1,18})\Z", "minimum": -1}},
    "additionalProperties": False,
}


def _console_output(view: ServerView, server_id: str, body: Any) -> Json:
    length = body.get("length")
    lines = None if length is None or int(length) < 0 else min(int(length), MOST_LINES)
    return {"output": CONTROLS.sub("", console_output(view.context, server_id, lines))}


_CONSOLES = {
    "os-getConsoleOutput": Action("os_compute_api:os-console-output", OUTPUT, _console_output),
    "os-getVNCConsole": _action("vnc", "novnc", "xvpvnc"),
    "os-getSPICEConsole": _action("spice", "spice-html5"),
    "os-getRDPConsole": _action("rdp", "rdp-html5"),
    "os-getSerialConsole": _action("serial", "serial"),
}


ACTIONS = {**_NETWORK, **_CONSOLES}
