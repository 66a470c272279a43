"""The actions on a server and their events (``os-instance-actions``), and events from other services
(``os-server-external-events``).
"""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute import dialect
from portal.api.compute.servers.schemas import UUID
from portal.api.compute.servers.shapes import host_id
from portal.api.frame import Json, Schema, Version
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.inbound.external_events import Delivery, ExternalEvent, deliver
from provisioning.compute.models import InstanceAction, InstanceActionEvent

DELETED = (2, 21)
"""From this version on the actions of deleted servers can be read."""


def actions_query(version: Version) -> Schema:
    """The query of the list, paged from 2.58 on."""
    if version < (2, 58):
        return dialect.query((2, 1), {})
    parameters: dict[str, Schema] = {"limit": dialect.COUNT, "marker": dialect.TEXT, "changes-since": dialect.TEXT}
    if version >= (2, 66):
        parameters["changes-before"] = dialect.TEXT
    return dialect.query((2, 75) if version >= (2, 66) else (2, 1), parameters)


class InstanceActionsView(dialect.ComputeView):
    """``GET /servers/{id}/os-instance-actions``, newest first."""

    rules = {"GET": "os_compute_api:os-instance-actions:list"}
    queries = {"GET": actions_query}

    def get(self, request: Request, server_id: str) -> Json:
        """List the actions, paged from 2.58 on."""
        query = self.checked_query()
        deleted = self.microversion >= DELETED
        if self.microversion < (2, 58):
            found = selectors.actions_for(self.context, server_id, deleted=deleted)
            return {"instanceActions": [self.shape(action) for action in found]}
        page = dialect.LIST_PAGES.read(request)
        since, before = (
            read(text, name) if (text := dialect.last(query, name)) else None
            for name, read in (("changes-since", dialect.read_time), ("changes-before", dialect.read_end))
        )
        if since and before and self.microversion >= (2, 66) and since > before:
            raise InvalidInputError(
                "The value of changes-since must be less than or equal to changes-before.", field="changes-since"
            )
        found = selectors.actions_for(
            self.context,
            server_id,
            limit=page.limit,
            marker=page.marker,
            changes_since=since,
            changes_before=before if self.microversion >= (2, 66) else None,
        )
        answer: Json = {"instanceActions": [self.shape(action) for action in found]}
        url = f"{self.base}/servers/{server_id}/os-instance-actions"
        following = dialect.LIST_PAGES.links(request, page, [action.request_id for action in found], url)
        if following:
            answer["links"] = following
        return answer

    def shape(self, action: InstanceAction) -> Json:
        shape: Json = {
            "action": action.action,
            "instance_uuid": str(action.instance_id),
            "request_id": action.request_id,
            "user_id": action.user_id.hex if action.user_id else None,
            "project_id": action.project_id.hex if action.project_id else None,
            "start_time": dialect.timestamp_micro(action.started_at),
            "message": action.message,
        }
        if self.microversion >= (2, 58):
            shape["updated_at"] = dialect.timestamp_micro(action.finished_at or action.started_at)
        return shape


class InstanceActionView(InstanceActionsView):
    """``GET /servers/{id}/os-instance-actions/{request_id}``."""

    rules = {"GET": "os_compute_api:os-instance-actions:show"}
    queries = {"GET": {}}

    def get(self, request: Request, server_id: str, request_id: str = "") -> Json:
        """Show one action. Its events are shown to operators, and from 2.51 on to every user who may see the server."""
        action, events = selectors.action_for(self.context, server_id, request_id, deleted=self.microversion >= DELETED)
        shape = self.shape(action)
        since, before = "os_compute_api:os-instance-actions:events", "os_compute_api:os-instance-actions:events:details"
        if self.allows(since if self.microversion >= (2, 51) else before):
            shape["events"] = [self._event(event, action) for event in events]
        return {"instanceAction": shape}

    def _event(self, event: InstanceActionEvent, action: InstanceAction) -> Json:
        operator = self.allows("os_compute_api:os-instance-actions:events:details")
        shape: Json = {
            "event": event.name,
            "start_time": dialect.timestamp_micro(event.started_at),
            "finish_time": dialect.timestamp_micro(event.finished_at),
            "result": event.result or None,
        }
        if self.microversion < (2, 51) or operator:
            shape["traceback"] = None
        if self.microversion >= (2, 62):
            project = action.instance.project_id
            shape["hostId"] = host_id(project, event.host)
            if operator:
                shape["host"] = event.host
        if self.microversion >= (2, 84) and operator:
            shape["details"] = event.message if event.result == "Error" else None
        return shape


NAMES = ("network-changed", "network-vif-plugged", "network-vif-unplugged", "network-vif-deleted")
LATER: dict[Version, str] = {
    (2, 51): "volume-extended",
    (2, 76): "power-update",
    (2, 82): "accelerator-request-bound",
    (2, 93): "volume-reimaged",
}
CODES = {
    Delivery.DELIVERED: 200,
    Delivery.NO_TAG: 400,
    Delivery.NO_SUCH_SERVER: 404,
    Delivery.ON_NO_HOST: 422,
}


def events_creation(version: Version) -> Schema:
    """Return the schema of ``POST``: a list of events. Later microversions have more names of events."""
    names = [*NAMES, *(name for since, name in LATER.items() if version >= since)]
    event: Schema = {
        "type": "object",
        "properties": {
            "server_uuid": UUID,
            "name": {"type": "string", "enum": names},
            "status": {"type": "string", "enum": ["failed", "completed", "in-progress"]},
            "tag": {"type": "string", "maxLength": 255},
        },
        "required": ["server_uuid", "name"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"events": {"type": "array", "minItems": 1, "items": event}},
        "required": ["events"],
        "additionalProperties": False,
    }


class ExternalEventsView(dialect.ComputeView):
    """``POST /os-server-external-events``."""

    rules = {"POST": "os_compute_api:os-server-external-events:create"}
    schemas = {"POST": events_creation}

    def post(self, request: Request) -> Response:
        """Deliver the events and return the result of each; the status is 207 if an event could not be delivered."""
        listed: list[Json] = self.checked_body()["events"]
        events = [
            ExternalEvent(event["server_uuid"], event["name"], event.get("status", "completed"), event.get("tag"))
            for event in listed
        ]
        answers = deliver(self.context, events)
        shown = [
            {**event, "status": "completed" if answer is Delivery.DELIVERED else "failed", "code": CODES[answer]}
            for event, answer in zip(listed, answers, strict=True)
        ]
        well = all(answer is Delivery.DELIVERED for answer in answers)
        return Response({"events": shown}, status=200 if well else 207)
