"""Messages (Block Storage API v3 reference, "Messages"), from 3.3 on: reasons of failed tasks."""

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.volume.base import VolumeView
from portal.api.volume.frame import listing
from portal.api.volume.frame.listing import Lists
from portal.api.volume.frame.times import timestamp
from portal.api.volume.frame.views import ListingView
from provisioning.volumes.models import Message
from provisioning.volumes.selectors.offers import message_for, messages_for
from provisioning.volumes.services.messages import delete_message

SINCE = ((3, 3), NEWEST)


class MessageBase(VolumeView):
    """Base of the message views."""

    def shape(self, message: Message) -> dict[str, Any]:
        """One message in Cinder's format."""
        return {
            "id": str(message.id),
            "event_id": f"{message.resource_type}_{message.action_id}_{message.detail_id}",
            "user_message": message.text,
            "message_level": message.level,
            "created_at": timestamp(message.created_at),
            "guaranteed_until": timestamp(message.expires_at),
            "request_id": message.request_id,
            "links": self.links(f"messages/{message.id}"),
            "resource_type": message.resource_type,
            **({"resource_uuid": str(message.resource_id)} if message.resource_id else {}),
        }


def _event(value: str) -> Q:
    """Return a condition on the three parts of a message's ``event_id``; fewer parts match nothing."""
    kind, action, detail = ["", "", "", *value.rsplit("_", 2)][-3:]
    return Q(resource_type=kind, action_id=action, detail_id=detail)


class MessagesView(MessageBase, ListingView):
    """``GET /messages``."""

    rules = {"GET": "message:get_all"}
    versions = {"GET": SINCE}
    path = "messages"
    lists = Lists(
        plural="messages",
        filters={
            "resource_uuid": listing.identity("resource_id"),
            "resource_type": lambda value: listing.text("resource_type")(value.upper()),
            "event_id": _event,
            "request_id": listing.text("request_id"),
            "message_level": lambda value: listing.text("level")(value.upper()),
        },
        like={"resource_type": "resource_type", "request_id": "request_id", "message_level": "level"},
        sort={
            "id": "id",
            "event_id": "detail_id",
            "resource_type": "resource_type",
            "resource_uuid": "resource_id",
            "message_level": "level",
            "guaranteed_until": "expires_at",
            "request_id": "request_id",
            "created_at": "created_at",
        },
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List messages of the project."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Message]:
        return messages_for(self.context, all_projects=all_projects)

    def shapes(self, rows: list[Message]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]


class MessageView(MessageBase):
    """``GET`` and ``DELETE /messages/{id}``."""

    rules = {"GET": "message:get", "DELETE": "message:delete"}
    versions = {"GET": SINCE, "DELETE": SINCE}

    def get(self, request: Request, message_id: str) -> Response:
        """Show a message of the project."""
        return Response({"message": self.shape(message_for(self.context, message_id))})

    def delete(self, request: Request, message_id: str) -> Response:
        """Delete a message of the project."""
        delete_message(message_for(self.context, message_id))
        return Response(status=204)
