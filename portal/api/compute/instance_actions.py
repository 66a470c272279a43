"""``os-instance-actions``: what was asked of a server, and every step of it."""

from __future__ import annotations

import hashlib
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import next_links, read_page
from portal.api.compute.server_shapes import timestamp_micro
from portal.api.compute.views import ComputeView
from provisioning.compute import selectors
from provisioning.compute.models import InstanceAction, InstanceActionEvent


class InstanceActionsView(ComputeView):
    """``GET /servers/{id}/os-instance-actions``, the newest first; paged from 2.58."""

    rules = {"GET": "compute:instance_actions:list"}

    def get(self, request: Request, server_id: str) -> Response:
        """List the actions."""
        paged = self.microversion >= (2, 58)
        page = read_page(request)
        found = selectors.actions_for(
            self.context, server_id, limit=page.limit if paged else None, marker=page.marker if paged else None
        )
        answer: dict[str, Any] = {"instanceActions": [self.shape(action) for action in found]}
        if paged:
            url = f"{self.base}/servers/{server_id}/os-instance-actions"
            following = next_links(request, page, [action.request_id for action in found], url)
            if following:
                answer["links"] = following
        return Response(answer)

    def shape(self, action: InstanceAction) -> dict[str, Any]:
        """One action."""
        shape: dict[str, Any] = {
            "action": action.action,
            "instance_uuid": str(action.instance_id),
            "request_id": action.request_id,
            "user_id": action.user_id.hex if action.user_id else None,
            "project_id": action.project_id.hex if action.project_id else None,
            "start_time": timestamp_micro(action.started_at),
            "message": action.message,
        }
        if self.microversion >= (2, 58):
            shape["updated_at"] = timestamp_micro(action.finished_at or action.started_at)
        return shape


class InstanceActionView(InstanceActionsView):
    """``GET /servers/{id}/os-instance-actions/{request_id}``."""

    rules = {"GET": "compute:instance_actions:show"}

    def get(self, request: Request, server_id: str, request_id: str = "") -> Response:
        """Show one action; its events from 2.51 on to everybody who sees the server, before that to operators."""
        action, events = selectors.action_for(self.context, server_id, request_id)
        shape = self.shape(action)
        since, before = "compute:instance_actions:events", "compute:instance_actions:events:details"
        if self.allows(since if self.microversion >= (2, 51) else before):
            shape["events"] = [self._event(event, action) for event in events]
        return Response({"instanceAction": shape})

    def _event(self, event: InstanceActionEvent, action: InstanceAction) -> dict[str, Any]:
        operator = self.allows("compute:instance_actions:events:details")
        shape: dict[str, Any] = {
            "event": event.name,
            "start_time": timestamp_micro(event.started_at),
            "finish_time": timestamp_micro(event.finished_at),
            "result": event.result or None,
        }
        if self.microversion < (2, 51) or operator:
            shape["traceback"] = None
        if self.microversion >= (2, 62):
            shape["hostId"] = _host_id(action, event.host)
            if operator:
                shape["host"] = event.host
        return shape


def _host_id(action: InstanceAction, host: str) -> str:
    if not host or action.project_id is None:
        return ""
    return hashlib.sha224(f"{action.project_id.hex}{host}".encode()).hexdigest()
