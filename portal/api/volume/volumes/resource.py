"""Volumes (Block Storage API v3 reference, "Volumes (volumes)")."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet

from portal.api.frame import Attribute, Checked, Filter, Json, Operation, Values, identity, number
from portal.api.volume.dialect import LINKS, Actions, Resource, VolumeView, kinds, listing, schemas
from portal.api.volume.volumes import actions
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.unset import UNSET
from provisioning.identity import policy
from provisioning.volumes import services
from provisioning.volumes.models import Volume
from provisioning.volumes.selectors.access import visible_volumes, volume_for
from provisioning.volumes.selectors.pools import host_of, servings
from provisioning.volumes.states import AttachStatus

HINTS = ("OS-SCH-HNT:scheduler_hints", "scheduler_hints")
_UNCHECKED = (3, 1)
"""Up to this version every value of ``bootable`` except false is true; later ones must be true or false."""
_HOST = "volume_extension:volume_host_attribute"
_MIGRATION = "volume_extension:volume_mig_status_attribute"


def with_parts(context: RequestContext, *, all_projects: bool = False) -> QuerySet[Volume]:
    """Return the visible volumes with the related rows of their representations, in a constant number of queries."""
    rows = visible_volumes(context, all_projects=all_projects)
    return rows.prefetch_related("attachments__host", servings("pool__"))


def _create(view: VolumeView, values: Values) -> Volume:
    body: Any = view.request.data  # the checked body; the hints are beside the volume
    hints: Json = next((body[name] for name in HINTS if body.get(name)), {})
    image = values.get("imageRef") or values.get("image_id") or ""
    if image:
        policy.enforce(view.context, "volume:create_from_image", {})
    if schemas.boolean(values.get("multiattach", False)):
        policy.enforce(view.context, "volume:multiattach", {})
    size = values.get("size")
    request = services.VolumeRequest(
        size_gb=None if size is None else int(size),
        name=schemas.text_of(values, "name") or schemas.text_of(values, "display_name"),
        description=schemas.text_of(values, "description") or schemas.text_of(values, "display_description"),
        volume_type=values.get("volume_type") or "",
        availability_zone=values.get("availability_zone") or "",
        image_id=image.rpartition("/")[2],
        snapshot_id=values.get("snapshot_id") or "",
        source_volume_id=values.get("source_volid") or "",
        backup_id=values.get("backup_id") or "" if view.microversion >= (3, 47) else "",
        group_id=values.get("group_id") or "" if view.microversion >= (3, 13) else "",
        metadata=values.get("metadata") or {},
        scheduler_hints=hints,
        multiattach=schemas.boolean(values.get("multiattach", False)),
    )
    if size is None and not (request.snapshot_id or request.source_volume_id or request.backup_id):
        raise InvalidInputError("Size (GB) must be specified for a new volume.", field="size")
    return volume_for(view.context, services.Create.begin(view.context, request).id)


def _update(view: VolumeView, identity: str, body: Values) -> Volume:
    services.update_volume(view.context, identity, **schemas.texts_of(body), metadata=body.get("metadata"))
    return volume_for(view.context, identity)


def _delete(view: VolumeView, identity: str) -> None:
    cascade = schemas.asked_for(view.request, "cascade")
    force = view.microversion >= (3, 23) and schemas.asked_for(view.request, "force")
    if force:
        policy.enforce(view.context, "volume:force_delete", {})
    services.Delete.begin(view.context, identity, services.VolumeDeletion(cascade=cascade, force=force))


def metadata_of(volume: Volume) -> dict[str, str]:
    """Return the metadata, with ``readonly`` once it has been set, as in Cinder."""
    read_only = "True" if volume.read_only else str(volume.admin_metadata.get("readonly") or "")
    return {**volume.metadata, **({"readonly": read_only} if read_only else {})}


class Attachments(Attribute):
    """The attachments of a volume; only operators see hosts."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        operator = view.allows(_HOST)
        return lambda row: [
            {
                "id": str(each.volume_id),
                "attachment_id": str(each.id),
                "volume_id": str(each.volume_id),
                "server_id": None if each.instance_id is None else str(each.instance_id),
                "host_name": each.host.name if operator and each.host else None,
                "device": each.mountpoint or None,
                "attached_at": kinds.timestamp(each.attached_at),
            }
            for each in row.attachments.all()
            if each.status == AttachStatus.ATTACHED
        ]


_ID, _NAME = Attribute("id", kinds.ID), Attribute("name", kinds.TEXT)
LEGACY = (
    _ID,
    Attribute("status", kinds.TEXT),
    Attribute("size", kinds.NUMBER, column="size_gb"),
    Attribute("availability_zone", kinds.TEXT),
    Attribute("created_at", kinds.TIME),
    Attribute("updated_at", kinds.TIME),
    _NAME,
    Attribute("description", kinds.OPTIONAL),
    Attribute("volume_type", kinds.TEXT, show=lambda row: row.volume_type.name if row.volume_type else None),
    Attribute("snapshot_id", kinds.ID, column="source_snapshot_id"),
    Attribute("source_volid", kinds.ID, column="source_volume_id"),
    Attribute("metadata", kinds.METADATA, show=metadata_of),
    LINKS,
    Attribute("user_id", kinds.PROJECT),
    Attribute("bootable", kinds.TEXT, show=lambda row: str(row.bootable).lower()),
    Attribute("encrypted", kinds.BOOLEAN, show=lambda row: bool(row.encryption_key)),
    Attribute("replication_status", kinds.TEXT, show=lambda row: None),
    Attribute("consistencygroup_id", kinds.TEXT, show=lambda row: None),
    Attribute("multiattach", kinds.BOOLEAN),
    Attachments("attachments", Checked({"type": "array"})),
    Attribute("migration_status", kinds.OPTIONAL, rule=_MIGRATION),
)
"""The attributes of the first microversion, which the response to managing a disk has."""
_ACCEPTED = (
    *LEGACY,
    Attribute("group_id", kinds.ID, since=(3, 13)),
    Attribute("provider_id", kinds.TEXT, show=lambda row: None, rule=_HOST, since=(3, 21)),
    Attribute("shared_targets", kinds.BOOLEAN, show=lambda row: False, since=(3, 48)),
    Attribute("service_uuid", kinds.ID, column="pool_id", since=(3, 48)),
    Attribute("cluster_name", kinds.TEXT, show=lambda row: None, rule=_HOST, since=(3, 61)),
    Attribute("volume_type_id", kinds.ID, since=(3, 63)),
    Attribute("encryption_key_id", kinds.ID, show=lambda row: row.id if row.encryption_key else UNSET, since=(3, 64)),
    Attribute("consumes_quota", kinds.BOOLEAN, show=lambda row: row.migration_of is None, since=(3, 65)),
)
"""The attributes in responses to create and update."""


def _is_not_false(value: str) -> bool:
    return value.lower() not in {"false", "f", "0"}


_LISTS = listing.Lists(
    filters=(
        Filter("id", read=identity),
        Filter("name"),
        Filter("display_name", "name"),
        Filter("status"),
        listing.pairs("metadata"),
        listing.boolean("bootable"),
        Filter("bootable", read=_is_not_false, until=_UNCHECKED),
        Filter("migration_status"),
        Filter("availability_zone"),
        Filter("group_id", read=identity, since=(3, 10)),
        Filter("size", "size_gb", number),
        listing.moments("created_at"),
        listing.moments("updated_at"),
        listing.pairs("glance_metadata", "image_metadata", since=(3, 4)),
        Filter("user_id", read=identity),
        Filter("project_id", read=identity),
        Filter("snapshot_id", "source_snapshot_id", identity),
        Filter("volume_type_id", read=identity),
        listing.boolean("multiattach"),
        listing.boolean("consumes_quota", "migration_of__isnull", since=(3, 65)),
    ),
    like=("name", "status", "availability_zone"),
    sort={
        "id": "id",
        "name": "name",
        "display_name": "name",
        "status": "status",
        "size": "size_gb",
        "availability_zone": "availability_zone",
        "bootable": "bootable",
        "created_at": "created_at",
        "updated_at": "updated_at",
        "user_id": "user_id",
        "project_id": "project_id",
    },
)
VOLUME = Resource(
    name="volume",
    list=Operation(with_parts, "volume:get_all", "List volumes by id and name."),
    show=Operation(volume_for, "volume:get", "Show a volume with its attachments."),
    create=Operation(
        _create,
        services.Create.rule,
        "Create a volume: empty, or from an image, a snapshot, a volume or a backup.",
        shows=_ACCEPTED,
        body=actions.volume_creation,
    ),
    update=Operation(
        _update, "volume:update", "Update name, description and metadata.", shows=_ACCEPTED, body=actions.volume_update
    ),
    delete=Operation(
        _delete,
        "volume:delete",
        "Delete a volume; ``cascade=True`` with its snapshots; ``force=True`` (3.23, operators) in any status.",
    ),
    short=(_ID, _NAME, LINKS),
    attributes=(
        *_ACCEPTED,
        Attribute(
            "os-vol-tenant-attr:tenant_id",
            kinds.PROJECT,
            column="project_id",
            rule="volume_extension:volume_tenant_attribute",
        ),
        Attribute(
            "os-vol-host-attr:host", kinds.TEXT, show=lambda row: host_of(row.pool) if row.pool else None, rule=_HOST
        ),
        Attribute("os-vol-mig-status-attr:migstat", kinds.OPTIONAL, column="migration_status", rule=_MIGRATION),
        Attribute("os-vol-mig-status-attr:name_id", kinds.TEXT, show=lambda row: None, rule=_MIGRATION),
        Attribute(
            "volume_image_metadata",
            kinds.METADATA,
            show=lambda row: row.image_metadata or UNSET,
            rule="volume_extension:volume_image_metadata:show",
        ),
    ),
    lists=_LISTS,
    actions=Actions("volume:get", "Run the action in the body.", actions.VOLUME_ACTIONS),
)
