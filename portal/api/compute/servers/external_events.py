"""``/os-server-external-events``: events about servers from other services."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.schemas import Schema, Version
from portal.api.compute.servers.fields import UUID
from provisioning.compute.inbound.external_events import Delivery, ExternalEvent, deliver

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


def create(version: Version) -> Schema:
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


class ExternalEventsView(ComputeView):
    """Events about servers."""

    rules = {"POST": "os_compute_api:os-server-external-events:create"}
    schemas: ClassVar = {"POST": create}

    def post(self, request: Request) -> Response:
        """Deliver the events and return the result of each; the status is 207 if an event could not be delivered."""
        listed: list[dict[str, Any]] = self.checked_body()["events"]
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
