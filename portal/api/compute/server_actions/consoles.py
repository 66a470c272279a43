"""Remote consoles as requested before 2.6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.compute.server_actions.registry import Action, Handler
from portal.api.compute.servers.remote_consoles import token_of
from portal.common.console_urls import client_url
from portal.common.public_url import public_url
from provisioning.compute.services.remote_consoles import create_console

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

RULE = "os_compute_api:os-remote-consoles"


def _opening(protocol: str) -> Handler:
    def open_console(view: ServerView, server_id: str, body: Any) -> Response:
        made = create_console(view.context, server_id, protocol, body["type"], token_of(view))
        url = client_url(public_url(view.request), made.protocol, made.token)
        return Response({"console": {"type": made.console_type, "url": url}})

    return open_console


def _action(protocol: str, *types: str) -> Action:
    schema: Schema = {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": list(types)}},
        "required": ["type"],
        "additionalProperties": False,
    }
    return Action(RULE, schema, _opening(protocol), maximum=(2, 5))


ACTIONS = {
    "os-getVNCConsole": _action("vnc", "novnc", "xvpvnc"),
    "os-getSPICEConsole": _action("spice", "spice-html5"),
    "os-getRDPConsole": _action("rdp", "rdp-html5"),
    "os-getSerialConsole": _action("serial", "serial"),
}
