"""Attachments (Block Storage API v3 reference, "Attachments"), from 3.27 on."""

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST, Version
from portal.api.common.validation import Schema
from portal.api.frame.schemas import body
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing
from portal.api.volume.dialect.actions import Action, actions_schema
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import ID, ID_OR_NULL
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ActionsView, ListingView
from provisioning.volumes.models import Attachment
from provisioning.volumes.selectors.access import attachment_for, visible_attachments
from provisioning.volumes.services import outside

SINCE = ((3, 27), NEWEST)
_CONNECTOR: Schema = {"type": ["object", "null"]}


def _create(version: Version) -> Schema:
    properties: dict[str, Schema] = {"volume_uuid": ID, "instance_uuid": ID_OR_NULL, "connector": _CONNECTOR}
    if version >= (3, 54):
        properties["mode"] = {"enum": ["rw", "ro", "null", None]}
    return body("attachment", properties, ("volume_uuid",))


class AttachmentBase(VolumeView):
    """Base of the attachment views."""

    versions = dict.fromkeys(("GET", "POST", "PUT", "DELETE"), SINCE)

    def summary(self, found: Attachment) -> dict[str, Any]:
        return {
            "id": str(found.id),
            "status": found.status,
            "instance": str(found.instance_id) if found.instance_id else None,
            "volume_id": str(found.volume_id),
        }

    def shape(self, found: Attachment) -> dict[str, Any]:
        """An attachment in full; its connection information is for operators."""
        data: dict[str, Any] = {}
        if found.connection:
            data = {"driver_volume_type": "nbd", "access_mode": found.mode, "volume_id": str(found.volume_id)}
            if self.allows("volume_extension:volume_host_attribute"):
                data |= {name: value for name, value in found.connection.items() if name != "secret"}
        return self.summary(found) | {
            "attached_at": timestamp(found.attached_at) or "",
            "detached_at": "",
            "attach_mode": found.mode,
            "connection_info": data,
        }

    def answer(self, found: Attachment) -> Response:
        return Response({"attachment": self.shape(attachment_for(self.context, found.id))})


class AttachmentsView(AttachmentBase, ListingView):
    """``GET`` and ``POST /attachments``."""

    rules = {"GET": "volume:get_all", "POST": "volume:attachment_create"}
    schemas = {"POST": _create}
    path = "attachments"
    lists = Lists(
        plural="attachments",
        filters={
            "volume_id": listing.identity("volume_id"),
            "instance_id": listing.identity("instance_id"),
            "status": listing.text("status"),
            "attach_status": listing.text("status"),
            "project_id": lambda value: Q(listing.identity("project_id")(value)),
        },
        like={"status": "status", "attach_status": "status"},
        sort={"id": "id", "created_at": "created_at", "attach_status": "status", "volume_id": "volume_id"},
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List attachments of the project."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Attachment]:
        return visible_attachments(self.context, all_projects=all_projects)

    def shapes(self, rows: list[Attachment]) -> list[dict[str, Any]]:
        return [self.summary(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Reserve a volume for a server or an outside consumer; a connector authorizes its host immediately."""
        asked = self.checked_body()["attachment"]
        connector = asked.get("connector") or {}
        mode = asked.get("mode") or connector.get("mode") or "rw"
        made = outside.reserve(
            self.context,
            asked["volume_uuid"],
            asked.get("instance_uuid"),
            mode="rw" if mode == "null" else mode,
            connector=connector,
        )
        return self.answer(made)


class AttachmentsDetailView(AttachmentsView):
    """``GET /attachments/detail``."""

    rules = {"GET": "volume:get_all"}
    http_method_names = ["get", "head"]
    path = "attachments/detail"

    def get(self, request: Request) -> Response:
        """List attachments with their connections."""
        return self.listed(request)

    def shapes(self, rows: list[Attachment]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]


class AttachmentView(AttachmentBase):
    """``GET``, ``PUT`` and ``DELETE /attachments/{id}``."""

    rules = {"GET": "volume:get", "PUT": "volume:attachment_update", "DELETE": "volume:attachment_delete"}
    schemas = {"PUT": body("attachment", {"connector": {"type": "object", "minProperties": 1}}, ("connector",))}

    def get(self, request: Request, attachment_id: str) -> Response:
        """Show an attachment with its connection."""
        return self.answer(attachment_for(self.context, attachment_id))

    def put(self, request: Request, attachment_id: str) -> Response:
        """Authorize the host of the connector."""
        connector = self.checked_body()["attachment"]["connector"]
        return self.answer(outside.connect(self.context, attachment_id, connector))

    def delete(self, request: Request, attachment_id: str) -> Response:
        """Release the volume; returns its remaining attachments, as in Cinder."""
        found = attachment_for(self.context, attachment_id)
        outside.release(self.context, found.id)
        rest = visible_attachments(self.context, all_projects=True).filter(volume_id=found.volume_id)
        return Response({"attachments": [self.summary(each) for each in rest.order_by("created_at", "id")]})


def _complete(view: ActionsView, attachment_id: str, asked: Any) -> Response:
    outside.complete(view.context, attachment_id)
    return Response(status=204)


ATTACHMENT_ACTIONS = {
    "os-complete": Action(rule="volume:attachment_complete", act=_complete, since=(3, 44)),
}


class AttachmentActionView(ActionsView):
    """``POST /attachments/{id}/action``, from 3.44 on."""

    rules = {"POST": "volume:attachment_complete"}
    versions = {"POST": ((3, 44), NEWEST)}
    actions = ATTACHMENT_ACTIONS
    schemas = {"POST": actions_schema(ATTACHMENT_ACTIONS)}

    def post(self, request: Request, attachment_id: str) -> Response:
        """Mark the volume as attached."""
        return self.act(request, attachment_id)
