"""Resize and its confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.compute.server_actions.registry import NOTHING, accepted, with_body
from provisioning.compute.actions.resize import ConfirmResize, resize

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

RESIZE = {
    "type": "object",
    "properties": {
        "flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 255},
        "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
    },
    "required": ["flavorRef"],
    "additionalProperties": False,
}


def _resize(view: ServerView, server_id: str, body: Any) -> Response:
    resize(view.context, server_id, str(body["flavorRef"]), disk_config=body.get("OS-DCF:diskConfig"))
    return accepted()


def _confirm(view: ServerView, server_id: str, body: Any) -> Response:
    ConfirmResize.begin(view.context, server_id)
    return Response(status=204)


ACTIONS = {
    **with_body("resize", RESIZE, _resize),
    **with_body("confirm_resize", NOTHING, _confirm),
}
