"""Lock and unlock, and state changes by operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.common.validation import Schema
from portal.api.compute.server_actions.registry import NOTHING, Action, accepted, with_body
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import inject_network_info
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.reset_state import ResetState

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView

STATE = {
    "type": "object",
    "properties": {"state": {"type": "string", "enum": ["active", "error"]}},
    "required": ["state"],
    "additionalProperties": False,
}


def _lock_schema(version: Version) -> Schema:
    if version < (2, 73):
        return NOTHING
    return {
        "type": ["object", "null"],
        "properties": {"locked_reason": {"type": "string", "minLength": 1, "maxLength": 255}},
        "additionalProperties": False,
    }


def _lock(view: ServerView, server_id: str, body: Any) -> Response:
    reason = body.get("locked_reason") if isinstance(body, dict) and view.microversion >= (2, 73) else None
    lock(view.context, server_id, reason=reason)
    return accepted()


def _reset_state(view: ServerView, server_id: str, body: Any) -> Response:
    ResetState.begin(view.context, server_id, body["state"])
    return accepted()


def _force_delete(view: ServerView, server_id: str, body: Any) -> Response:
    delete(view.context, server_id, force=True)
    return accepted()


def _inject_network_info(view: ServerView, server_id: str, body: Any) -> Response:
    inject_network_info(view.context, server_id)
    return accepted()


ACTIONS = {
    **with_body("lock", _lock_schema, _lock),
    **with_body("reset_state", STATE, _reset_state),
    "forceDelete": Action("os_compute_api:os-deferred-delete:force", NOTHING, _force_delete),
    "injectNetworkInfo": Action("os_compute_api:os-admin-actions:inject_network_info", NOTHING, _inject_network_info),
}
