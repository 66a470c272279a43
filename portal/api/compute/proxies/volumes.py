"""Volumes and snapshots in the Compute API up to 2.35 (Compute API reference, "Volume extension"), and assisted volume
snapshots.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from rest_framework.response import Response

from portal.api.compute import dialect
from portal.api.compute.proxies.base import ProxyView
from portal.api.frame import Attribute, Call, Checked, Operation, Parameter, Schema, Values, Version, parts, query_of
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Listing, Sort
from provisioning.compute.services.assisted_snapshots import refuse_assisted_snapshot
from provisioning.identity import policy
from provisioning.volumes import selectors, services
from provisioning.volumes.models import Snapshot, Volume
from provisioning.volumes.states import AttachStatus

PART = (Parameter("limit", dialect.COUNT), Parameter("offset", dialect.COUNT))
_TEXT = Checked({"type": ["string", "null"], "maxLength": 255}, lambda text: text or "")
_TIME = Checked({}, writer=dialect.timestamp)
_METADATA = Checked(
    {"type": ["object", "null"], "additionalProperties": {"type": "string", "maxLength": 255}},
    lambda items: items or {},
)


class ProxyListView(dialect.ListView, ProxyView):
    """A list of another service."""


class ProxyDetailView(dialect.DetailView, ProxyView):
    """An object of another service."""


PROXY = replace(dialect.COMPUTE, lists=ProxyListView, details=ProxyDetailView, parameters=query_of)
"""Unknown parameters are accepted at every microversion."""


_NEWEST_FIRST = Listing[Any](order=(Sort("created_at"), Sort("id")))


def _set(name: str, column: str = "") -> Attribute:
    """Return a text that bodies set, and that responses have under another name."""
    return Attribute(name, _TEXT, column=column, post=True, shown=False)


def _list_volumes(view: dialect.ListView, query: Mapping[str, str]) -> list[Volume]:
    rows = selectors.visible_volumes(view.context).prefetch_related("attachments")
    return _NEWEST_FIRST.page(rows, dialect.WITH_OFFSET.read_part(view.request))


def _volume(view: dialect.ResourceView, identity: str, rule: str) -> Volume:
    volume = selectors.volume_for(view.context, identity)
    policy.enforce(view.context, rule, {"project_id": volume.project_id})
    return volume


def _create_volume(view: dialect.ResourceView, values: Values) -> Response:
    made = services.Create.begin(view.context, services.VolumeRequest(**values))
    [shape] = view.shapes([made])
    return Response({"volume": shape}, headers={"Location": f"{view.base}/os-volumes/{made.id}"})


def _delete_volume(view: dialect.ResourceView, identity: str) -> None:
    _volume(view, identity, "volume:delete")
    services.Delete.begin(view.context, identity, services.VolumeDeletion())


def _attachments(volume: Volume) -> list[dict[str, str]]:
    """Return the attachments of a volume; if there are none, one empty object, as in Nova."""
    found = [
        {
            "id": str(volume.id),
            "volumeId": str(volume.id),
            "serverId": str(attachment.instance_id),
            **({"device": attachment.mountpoint} if attachment.mountpoint else {}),
        }
        for attachment in volume.attachments.all()
        if attachment.status == AttachStatus.ATTACHED
    ]
    return found or [{}]


def _snapshot_id(volume: Volume) -> str | None:
    return str(volume.source_snapshot_id) if volume.source_snapshot_id else None


_VOLUME = (
    Attribute("id", dialect.ID),
    Attribute("status", dialect.SHOWN),
    Attribute("size", Checked(dialect.POSITIVE, int), column="size_gb", post=True, required=True),
    Attribute("availabilityZone", dialect.SHOWN, column="availability_zone"),
    Attribute("createdAt", _TIME, column="created_at"),
    Attribute("attachments", dialect.SHOWN, show=_attachments),
    Attribute("displayName", dialect.SHOWN, column="name"),
    Attribute("displayDescription", dialect.TEXT_OR_NULL, column="description"),
    Attribute("volumeType", dialect.SHOWN, show=lambda volume: volume.volume_type.name if volume.volume_type else None),
    Attribute("snapshotId", dialect.SHOWN, show=_snapshot_id),
    Attribute("metadata", _METADATA, post=True),
)
_VOLUMES = Operation(
    _list_volumes,
    "os_compute_api:os-volumes:list",
    "List volumes of the project.",
    also=("volume:get_all",),
    parameters=PART,
)
VOLUME = dialect.Resource(
    name="volume",
    path="os-volumes",
    list=_VOLUMES,
    detailed=replace(_VOLUMES, rule="os_compute_api:os-volumes:detail"),
    show=Operation(lambda view, identity: _volume(view, identity, "volume:get"), "os_compute_api:os-volumes:show"),
    create=Operation(
        _create_volume,
        "os_compute_api:os-volumes:create",
        "Create a volume, empty or from a snapshot.",
        also=(services.Create.rule,),
    ),
    delete=Operation(_delete_volume, "os_compute_api:os-volumes:delete", status=202),
    short=_VOLUME,
    attributes=(
        *_VOLUME,
        _set("display_name", "name"),
        _set("display_description", "description"),
        _set("volume_type"),
        _set("availability_zone"),
        _set("snapshot_id"),
    ),
)


def _list_snapshots(view: dialect.ListView, query: Mapping[str, str]) -> list[Snapshot]:
    rows = selectors.visible_snapshots(view.context)
    return _NEWEST_FIRST.page(rows, dialect.WITH_OFFSET.read_part(view.request))


def _snapshot(view: dialect.ResourceView, identity: str, rule: str) -> Snapshot:
    snapshot = selectors.snapshot_for(view.context, identity)
    policy.enforce(view.context, rule, {"project_id": snapshot.project_id})
    return snapshot


def _create_snapshot(view: dialect.ResourceView, values: Values) -> Snapshot:
    return services.CreateSnapshot.begin(view.context, values.pop("volume_id"), services.SnapshotRequest(**values))


def _delete_snapshot(view: dialect.ResourceView, identity: str) -> None:
    _snapshot(view, identity, services.DeleteSnapshot.rule)
    services.DeleteSnapshot.begin(view.context, identity, services.Deletion())


_SNAPSHOT = (
    Attribute("id", dialect.ID),
    Attribute("volumeId", dialect.ID, column="volume_id"),
    Attribute("status", dialect.SHOWN),
    Attribute("size", dialect.SHOWN, column="size_gb"),
    Attribute("createdAt", _TIME, column="created_at"),
    Attribute("displayName", dialect.SHOWN, column="name"),
    Attribute("displayDescription", dialect.TEXT_OR_NULL, column="description"),
)
_SNAPSHOTS = Operation(
    _list_snapshots,
    "os_compute_api:os-volumes:snapshots:list",
    "List snapshots of the project.",
    also=("volume:get_all_snapshots",),
    parameters=PART,
)
SNAPSHOT = dialect.Resource(
    name="snapshot",
    path="os-snapshots",
    list=_SNAPSHOTS,
    detailed=replace(_SNAPSHOTS, rule="os_compute_api:os-volumes:snapshots:detail"),
    show=Operation(
        lambda view, identity: _snapshot(view, identity, "volume:get_snapshot"),
        "os_compute_api:os-volumes:snapshots:show",
    ),
    create=Operation(
        _create_snapshot,
        "os_compute_api:os-volumes:snapshots:create",
        "Create a snapshot of a volume.",
        also=(services.CreateSnapshot.rule,),
    ),
    delete=Operation(_delete_snapshot, "os_compute_api:os-volumes:snapshots:delete", status=202),
    short=_SNAPSHOT,
    attributes=(
        *_SNAPSHOT,
        Attribute("volume_id", Checked({"type": "string"}), post=True, required=True, shown=False),
        Attribute("force", Checked(dialect.BOOLEAN, dialect.boolean), post=True, shown=False),
        _set("display_name", "name"),
        _set("display_description", "description"),
    ),
)


def snapshot_creation(version: Version) -> Schema:
    """Return the schema of ``POST /os-assisted-volume-snapshots``."""
    text: Schema = {"type": "string", "minLength": 1}
    info: Schema = {
        "type": "object",
        "properties": {
            "snapshot_id": {"type": "string", "minLength": 1, "maxLength": 255},
            "type": {"enum": ["qcow2"]},
            "new_file": {"type": "string", "minLength": 1, "maxLength": 255},
            "id": {"type": "string", "minLength": 1, "maxLength": 255},
        },
        "required": ["snapshot_id", "type", "new_file"],
        "additionalProperties": False,
    }
    snapshot: Schema = {
        "type": "object",
        "properties": {"volume_id": text, "create_info": info},
        "required": ["volume_id", "create_info"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"snapshot": snapshot},
        "required": ["snapshot"],
        "additionalProperties": False,
    }


def snapshot_deletion(version: Version) -> Schema:
    """Return the schema of the query of ``DELETE /os-assisted-volume-snapshots/{id}``."""
    return {
        "type": "object",
        "properties": {"delete_info": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": version < (2, 75),
    }


def _volume_of_snapshot(view: dialect.ComputeView) -> dict[str, str]:
    text = dialect.last(view.checked_query(), "delete_info")
    try:
        info: Any = orjson.loads(text or "")
    except orjson.JSONDecodeError as error:
        raise InvalidInputError("delete_info must be an object in JSON.", field="delete_info") from error
    if not isinstance(info, dict) or not isinstance(info.get("volume_id"), str):
        raise InvalidInputError("delete_info must name the volume_id.", field="delete_info")
    return {"volume_id": info["volume_id"]}


ASSISTED_SNAPSHOTS = parts(
    dialect.ComputeView,
    "os-assisted-volume-snapshots",
    {
        "POST": Call(
            lambda context, snapshot: refuse_assisted_snapshot(snapshot["volume_id"]),
            "os_compute_api:os-assisted-volume-snapshots:create",
            "Refused: no pool needs assistance.",
            status=201,
            body=snapshot_creation,
        ),
        "DELETE /{snapshot_id}": Call(
            lambda context, snapshot_id, *, volume_id: refuse_assisted_snapshot(volume_id),
            "os_compute_api:os-assisted-volume-snapshots:delete",
            "Refused: no pool needs assistance.",
            query=snapshot_deletion,
            more=_volume_of_snapshot,
        ),
    },
)
