"""The console log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.compute.server_actions.registry import Action
from provisioning.compute.services.console import console_output

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

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


ACTIONS = {"os-getConsoleOutput": Action("os_compute_api:os-console-output", OUTPUT, _console_output)}
