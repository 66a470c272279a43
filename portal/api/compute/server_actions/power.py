"""Power actions with arguments or a response: reboot, crash dump, password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.compute.server_actions.registry import ONLY_NULL, accepted, plain, with_body
from provisioning.compute.actions.power import ChangePassword, reboot
from provisioning.compute.actions.registry import actions

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


def _reboot(view: ServerView, server_id: str, body: Any) -> Response:
    reboot(view.context, server_id, hard=body["type"].upper() == "HARD")
    return accepted()


def _change_password(view: ServerView, server_id: str, body: Any) -> Response:
    ChangePassword.begin(view.context, server_id, body["adminPass"])
    return accepted()


ACTIONS = {
    **with_body("reboot", REBOOT, _reboot),
    **with_body("change_password", PASSWORD, _change_password),
    "trigger_crash_dump": plain(actions["trigger_crash_dump"], ONLY_NULL, minimum=(2, 17)),
}
