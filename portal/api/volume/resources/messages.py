"""Messages (Block Storage API v3 reference, "Messages"), from 3.3 on: reasons of failed tasks."""

from django.db.models import Q

from portal.api.frame import Attribute, Filter, Operation, identity, upper
from portal.api.volume.dialect import LINKS, Resource, VolumeView, kinds, listing
from provisioning.common.values.unset import UNSET
from provisioning.volumes.selectors.offers import message_for, messages_for
from provisioning.volumes.services.messages import delete_message


def _event(value: str) -> Q:
    """Return a condition on the three parts of a message's ``event_id``; fewer parts match nothing."""
    kind, action, detail = ["", "", "", *value.rsplit("_", 2)][-3:]
    return Q(resource_type=kind, action_id=action, detail_id=detail)


def _delete(view: VolumeView, identity: str) -> None:
    delete_message(message_for(view.context, identity))


MESSAGE = Resource(
    name="message",
    since=(3, 3),
    list=Operation(messages_for, "message:get_all", "List messages of the project."),
    show=Operation(message_for, "message:get", "Show a message of the project."),
    delete=Operation(_delete, "message:delete", "Delete a message of the project.", status=204),
    attributes=(
        Attribute("id", kinds.ID),
        Attribute("event_id", kinds.TEXT, show=lambda row: f"{row.resource_type}_{row.action_id}_{row.detail_id}"),
        Attribute("user_message", kinds.TEXT, column="text"),
        Attribute("message_level", kinds.TEXT, column="level"),
        Attribute("created_at", kinds.TIME),
        Attribute("guaranteed_until", kinds.TIME, column="expires_at"),
        Attribute("request_id", kinds.TEXT),
        LINKS,
        Attribute("resource_type", kinds.TEXT),
        Attribute("resource_uuid", kinds.ID, show=lambda row: row.resource_id or UNSET),
    ),
    lists=listing.Lists(
        filters=(
            Filter("resource_uuid", "resource_id", identity),
            Filter("resource_type", read=upper),
            Filter("event_id", condition=_event),
            Filter("request_id"),
            Filter("message_level", "level", upper),
        ),
        like=("resource_type", "request_id", "message_level"),
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
    ),
)
