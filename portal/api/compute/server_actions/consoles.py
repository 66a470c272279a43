"""The console log, and remote consoles as requested before 2.6."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.compute.server_actions.registry import Action, Handler
from portal.api.compute.servers.remote_consoles import token_of
from portal.common.console_urls import client_url
from portal.common.public_url import public_url
from provisioning.compute.services.console import console_output
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


MOST_LINES = 999_999_999
"""Larger than the number of lines of any log, and within the integer range of every host."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")
"""Control characters that Nova removes from a log, including carriage returns and the start of escape sequences."""
OUTPUT = {
    "type": "object",
    "properties": {"length": {"type": ["integer", "string", "null"], "pattern": r"^(-1|[0-9]{1,18})\Z", "minimum": -1}},
    "additionalProperties": False,
}


def _console_output(view: ServerView, server_id: str, body: Any) -> Response:
    length = body.get("length")
    lines = None if length is None or int(length) < 0 else min(int(length), MOST_LINES)
    return Response({"output": CONTROLS.sub("", console_output(view.context, server_id, lines))})


ACTIONS = {
    "os-getConsoleOutput": Action("os_compute_api:os-console-output", OUTPUT, _console_output),
    "os-getVNCConsole": _action("vnc", "novnc", "xvpvnc"),
    "os-getSPICEConsole": _action("spice", "spice-html5"),
    "os-getRDPConsole": _action("rdp", "rdp-html5"),
    "os-getSerialConsole": _action("serial", "serial"),
}
