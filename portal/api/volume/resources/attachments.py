"""Attachments (Block Storage API v3 reference, "Attachments"), from 3.27 on."""

from collections.abc import Callable, Sequence
from typing import Any

from portal.api.frame import Attribute, Checked, Filter, Json, Operation, ServiceView, Values, body, identity
from portal.api.volume.dialect import Action, Actions, Resource, ResourceView, VolumeView, kinds, listing, schemas
from provisioning.volumes.models import Attachment
from provisioning.volumes.selectors.access import attachment_for, visible_attachments
from provisioning.volumes.services.connections import outside


class Connection(Attribute):
    """The connection information; its details are for operators."""

    def reader(self, view: ServiceView, rows: Sequence[Attachment]) -> Callable[[Attachment], Json]:
        whole = view.allows("volume_extension:volume_host_attribute")

        def connection(row: Attachment) -> Json:
            if not row.connection:
                return {}
            result = {"driver_volume_type": "nbd", "access_mode": row.mode, "volume_id": str(row.volume_id)}
            more = {name: value for name, value in row.connection.items() if name != "secret"}
            return result | more if whole else result

        return connection


def _create(view: VolumeView, values: Values) -> Attachment:
    connector = values.get("connector") or {}
    mode = values.get("mode") or connector.get("mode") or "rw"
    made = outside.reserve(
        view.context,
        values["volume_uuid"],
        values.get("instance_uuid"),
        mode="rw" if mode == "null" else mode,
        connector=connector,
    )
    return attachment_for(view.context, made.id)


def _update(view: VolumeView, identity: str, values: Values) -> Attachment:
    return attachment_for(view.context, outside.connect(view.context, identity, values["connector"]).id)


def _delete(view: ResourceView, identity: str) -> Json:
    found = attachment_for(view.context, identity)
    outside.release(view.context, found.id)
    rest = visible_attachments(view.context, all_projects=True).filter(volume_id=found.volume_id)
    return {"attachments": view.shapes(list(rest.order_by("created_at", "id")), _SUMMARY)}


def _complete(view: VolumeView, identity: str, body: Any) -> None:
    outside.complete(view.context, identity)


_SUMMARY = (
    Attribute("id", kinds.ID),
    Attribute("status", kinds.TEXT),
    Attribute("instance", kinds.ID, column="instance_id"),
    Attribute("volume_id", kinds.ID),
)
_CONNECTOR = Checked({"type": ["object", "null"]})
_CHANGES = body("attachment", {"connector": {"type": "object", "minProperties": 1}}, ("connector",))
ATTACHMENT = Resource(
    name="attachment",
    since=(3, 27),
    list=Operation(visible_attachments, "volume:get_all", "List attachments of the project."),
    show=Operation(attachment_for, "volume:get", "Show an attachment with its connection."),
    create=Operation(
        _create,
        "volume:attachment_create",
        "Reserve a volume for a server or an outside consumer. With a connector, its host may connect immediately.",
        status=200,
    ),
    update=Operation(_update, "volume:attachment_update", "Authorize the host of the connector.", body=_CHANGES),
    delete=Operation(
        _delete,
        "volume:attachment_delete",
        "Release the volume; returns its remaining attachments, as in Cinder.",
        status=200,
    ),
    short=_SUMMARY,
    attributes=(
        *_SUMMARY,
        Attribute("attached_at", kinds.TEXT, show=lambda row: kinds.timestamp(row.attached_at) or ""),
        Attribute("detached_at", kinds.TEXT, show=lambda row: ""),
        Attribute("attach_mode", kinds.TEXT, column="mode"),
        Connection("connection_info", Checked({"type": "object"})),
        Attribute("volume_uuid", kinds.ID, post=True, required=True, shown=False),
        Attribute("instance_uuid", Checked(schemas.ID_OR_NULL), post=True, shown=False),
        Attribute("connector", _CONNECTOR, post=True, shown=False),
        Attribute("mode", Checked({"enum": ["rw", "ro", "null", None]}), post=True, shown=False, since=(3, 54)),
    ),
    lists=listing.Lists(
        filters=(
            Filter("volume_id", read=identity),
            Filter("instance_id", read=identity),
            Filter("status"),
            Filter("attach_status", "status"),
            Filter("project_id", read=identity),
        ),
        like=("status", "attach_status"),
        sort={"id": "id", "created_at": "created_at", "attach_status": "status", "volume_id": "volume_id"},
    ),
    actions=Actions(
        "volume:attachment_complete",
        "Mark the volume as attached.",
        {"os-complete": Action(rule="volume:attachment_complete", act=_complete, since=(3, 44), status=204)},
    ),
)
