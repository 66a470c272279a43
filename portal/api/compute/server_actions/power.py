"""Start, stop, reboot, pause, suspend, a crash dump, a password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.compute.server_actions.registry import NOTHING, ONLY_NULL, Action, Handler, accepted
from provisioning.compute.actions.power import Power, change_password, reboot, switch, trigger_crash_dump

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

REBOOT = {
    "type": "object",
    "properties": {"type": {"type": "string", "enum": ["SOFT", "HARD", "soft", "hard", "Soft", "Hard"]}},
    "required": ["type"],
    "additionalProperties": False,
}
PASSWORD = {
    "type": "object",
    "properties": {"adminPass": {"type": "string", "minLength": 1, "maxLength": 255}},
    "required": ["adminPass"],
    "additionalProperties": False,
}


def _switch(power: Power) -> Handler:
    def handler(view: ServerView, server_id: str, body: Any) -> Response:
        switch(view.context, server_id, power)
        return accepted()

    return handler


def _reboot(view: ServerView, server_id: str, body: Any) -> Response:
    reboot(view.context, server_id, hard=body["type"].upper() == "HARD")
    return accepted()


def _crash_dump(view: ServerView, server_id: str, body: Any) -> Response:
    trigger_crash_dump(view.context, server_id)
    return accepted()


def _change_password(view: ServerView, server_id: str, body: Any) -> Response:
    change_password(view.context, server_id, body["adminPass"])
    return accepted()


ACTIONS = {
    "os-start": Action("os_compute_api:servers:start", NOTHING, _switch("start")),
    "os-stop": Action("os_compute_api:servers:stop", NOTHING, _switch("stop")),
    "reboot": Action("os_compute_api:servers:reboot", REBOOT, _reboot),
    "pause": Action("os_compute_api:os-pause-server:pause", NOTHING, _switch("pause")),
    "unpause": Action("os_compute_api:os-pause-server:unpause", NOTHING, _switch("unpause")),
    "suspend": Action("os_compute_api:os-suspend-server:suspend", NOTHING, _switch("suspend")),
    "resume": Action("os_compute_api:os-suspend-server:resume", NOTHING, _switch("resume")),
    "trigger_crash_dump": Action("os_compute_api:servers:trigger_crash_dump", ONLY_NULL, _crash_dump, minimum=(2, 17)),
    "changePassword": Action("os_compute_api:os-admin-password", PASSWORD, _change_password),
}
