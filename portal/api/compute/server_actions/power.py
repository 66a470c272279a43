"""Actions on the power that say more than their name: reboot, a crash dump, a password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.compute.server_actions.registry import ONLY_NULL, Action, accepted, plain
from provisioning.compute.actions.power import CRASH_DUMP, change_password, reboot

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
    change_password(view.context, server_id, body["adminPass"])
    return accepted()


ACTIONS = {
    "reboot": Action("os_compute_api:servers:reboot", REBOOT, _reboot),
    "trigger_crash_dump": plain(CRASH_DUMP, ONLY_NULL, minimum=(2, 17)),
    "changePassword": Action("os_compute_api:os-admin-password", PASSWORD, _change_password),
}
