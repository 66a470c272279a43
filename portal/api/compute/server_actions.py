"""``POST /servers/{id}/action``: one key of the body names the action (Compute API reference, "Servers")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute import server_schemas
from portal.api.compute.views import ComputeView
from provisioning.common.errors import InvalidInputError
from provisioning.compute import services
from provisioning.identity import policy

MOST_LINES = 999_999_999
"""More than any log has, and a number that every host can read."""

Handler = Callable[["ServerActionView", str, Any], Response]


@dataclass(frozen=True)
class Action:
    """One action: its policy rule, the schema of its body, and what carries it out."""

    rule: str
    schema: dict[str, Any]
    handler: Handler


def _start(view: ServerActionView, server_id: str, body: Any) -> Response:
    services.start(view.context, server_id)
    return Response(status=202)


def _stop(view: ServerActionView, server_id: str, body: Any) -> Response:
    services.stop(view.context, server_id)
    return Response(status=202)


def _reboot(view: ServerActionView, server_id: str, body: Any) -> Response:
    services.reboot(view.context, server_id, hard=body["type"].upper() == "HARD")
    return Response(status=202)


def _force_delete(view: ServerActionView, server_id: str, body: Any) -> Response:
    services.delete(view.context, server_id)
    return Response(status=202)


def _console_output(view: ServerActionView, server_id: str, body: Any) -> Response:
    length = body.get("length")
    lines = None if length is None or int(length) < 0 else min(int(length), MOST_LINES)
    return Response({"output": services.console_output(view.context, server_id, lines)})


class ServerActionView(ComputeView):
    """Runs one action on one server."""

    rules = {"POST": "compute:servers:show"}
    actions: ClassVar[dict[str, Action]] = {
        "os-start": Action("compute:servers:start", server_schemas.START, _start),
        "os-stop": Action("compute:servers:stop", server_schemas.STOP, _stop),
        "reboot": Action("compute:servers:reboot", server_schemas.REBOOT, _reboot),
        "forceDelete": Action("compute:servers:force_delete", server_schemas.FORCE_DELETE, _force_delete),
        "os-getConsoleOutput": Action(
            "compute:servers:console_output", server_schemas.GET_CONSOLE_OUTPUT, _console_output
        ),
    }

    def post(self, request: Request, server_id: str) -> Response:
        """Find the action by the one key of the body, ask the policy for it, check its body, run it."""
        body = request.data
        if not isinstance(body, dict) or len(body) != 1:
            raise InvalidInputError("Malformed request body: it must name one action.")
        name = next(iter(body))
        action = self.actions.get(name)
        if action is None:
            raise InvalidInputError(f"There is no such action: {name[:64]}")
        policy.enforce(self.context, action.rule)
        return action.handler(self, server_id, self.body(action.schema)[name])
