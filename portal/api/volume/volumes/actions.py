"""``POST /volumes/{id}/action`` (Block Storage API v3 reference, "Volume actions"), and the JSON schemas of requests
about volumes.
"""

from typing import Any

from portal.api.frame import Json, Schema, Version, inner
from portal.api.volume.dialect import Action, ActionsView, kinds, schemas
from provisioning.common.errors import InvalidInputError, NotFoundError, NotOfferedError
from provisioning.volumes import services
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.selectors.access import volume_for
from provisioning.volumes.selectors.pools import pool_named
from provisioning.volumes.services.connections import outside
from provisioning.volumes.states import VolumeStatus

STRICT = (3, 53)
"""From this version on undocumented members are rejected."""
_NULLABLE_SIZE: Schema = schemas.SIZE | {"type": ["integer", "string", "null"]}
_METADATA: Schema = schemas.METADATA | {"type": ["object", "null"]}


def volume_creation(version: Version) -> Schema:
    """Return the schema of ``POST /volumes``."""
    properties: dict[str, Schema] = {
        "size": _NULLABLE_SIZE,
        "name": schemas.NAME,
        "display_name": schemas.NAME,
        "description": schemas.NAME,
        "display_description": schemas.NAME,
        "volume_type": schemas.ID_OR_NULL,
        "availability_zone": schemas.ID_OR_NULL,
        "imageRef": schemas.ID_OR_NULL,
        "image_id": schemas.ID_OR_NULL,
        "snapshot_id": schemas.ID_OR_NULL,
        "source_volid": schemas.ID_OR_NULL,
        "consistencygroup_id": {"type": "null"},
        "metadata": _METADATA,
        "multiattach": schemas.BOOLEAN,
    }
    if version >= (3, 13):
        properties["group_id"] = schemas.ID_OR_NULL
    if version >= (3, 47):
        properties["backup_id"] = schemas.ID_OR_NULL
    hints: Schema = {"type": ["object", "null"]}
    return {
        "type": "object",
        "properties": {
            "volume": inner(properties, closed=version >= STRICT),
            "OS-SCH-HNT:scheduler_hints": hints,
            "scheduler_hints": hints,
        },
        "required": ["volume"],
        "additionalProperties": False,
    }


def volume_update(version: Version) -> Schema:
    """Return the schema of ``PUT /volumes/{id}``."""
    properties = {
        "name": schemas.NAME,
        "display_name": schemas.NAME,
        "description": schemas.NAME,
        "display_description": schemas.NAME,
        "metadata": _METADATA,
    }
    one = inner(properties, closed=version >= STRICT)
    if version >= STRICT:
        one["minProperties"] = 1
    return {"type": "object", "properties": {"volume": one}, "required": ["volume"], "additionalProperties": False}


_CONNECTOR: Schema = inner({"connector": {"type": ["object", "null"]}}, closed=False)
_WORD: Schema = schemas.ID
NEW_SIZE = inner({"new_size": schemas.SIZE}, ("new_size",))
ATTACH = inner(
    {
        "instance_uuid": schemas.UUID,
        "mountpoint": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "host_name": {"type": ["string", "null"], "maxLength": 255},
        "mode": {"enum": ["rw", "ro"]},
    },
    ("mountpoint",),
)
DETACH: Schema = {"type": ["object", "null"], "properties": {"attachment_id": schemas.ID_OR_NULL}}
FORCE_DETACH = inner({"attachment_id": schemas.ID_OR_NULL, "connector": {"type": ["object", "null"]}})
CONNECTOR = inner({"connector": {"type": "object"}}, ("connector",))
READ_ONLY = inner({"readonly": schemas.BOOLEAN}, ("readonly",))
BOOTABLE = inner({"bootable": schemas.BOOLEAN}, ("bootable",))
RESET = inner(
    {
        "status": {"type": ["string", "null"], "maxLength": 64},
        "attach_status": {"enum": ["attached", "detached", None]},
        "migration_status": {"enum": ["none", "migrating", "error", "completing", "success", "starting", None]},
    }
)
SET_IMAGE_METADATA = inner({"metadata": schemas.METADATA}, ("metadata",))
UNSET_IMAGE_METADATA = inner({"key": schemas.ID}, ("key",))
RETYPE = inner({"new_type": schemas.ID, "migration_policy": {"enum": ["on-demand", "never", None]}}, ("new_type",))
EXTEND_COMPLETION = inner({"error": schemas.BOOLEAN})
REVERT = inner({"snapshot_id": schemas.ID}, ("snapshot_id",))
REIMAGE = inner({"image_id": schemas.ID, "reimage_reserved": schemas.BOOLEAN}, ("image_id",))
MIGRATE_COMPLETION = inner({"new_volume": schemas.ID, "error": schemas.BOOLEAN}, ("new_volume",))


def volume_migration(version: Version) -> Schema:
    """Return the schema of ``os-migrate_volume``; from 3.16 on with ``cluster``, although there are no clusters."""
    properties: Json = {
        "host": schemas.ID,
        "force_host_copy": schemas.BOOLEAN,
        "lock_volume": schemas.BOOLEAN,
    }
    if version >= (3, 16):
        properties["cluster"] = schemas.ID_OR_NULL
    return inner(properties)


def volume_upload(version: Version) -> Schema:
    """Return the schema of ``os-volume_upload_image``; from 3.1 on with ``visibility`` and ``protected``."""
    properties: dict[str, Schema] = {
        "image_name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"},
        "force": schemas.BOOLEAN,
        "disk_format": {"enum": ["raw", "vmdk", "vdi", "qcow2", "vhd", "vhdx", "ploop", None]},
        "container_format": {"type": ["string", "null"], "maxLength": 255},
    }
    if version >= (3, 1):
        properties |= {
            "visibility": {"enum": ["community", "public", "private", "shared"]},
            "protected": schemas.BOOLEAN,
        }
    return inner(properties, ("image_name",))


def _extend(view: ActionsView, volume_id: str, body: Any) -> None:
    if view.microversion < (3, 42) and volume_for(view.context, volume_id).status == VolumeStatus.IN_USE:
        raise InvalidInputError("Invalid volume: Volume status must be available to extend.", field="status")
    services.Extend.begin(view.context, volume_id, int(body["new_size"]))


def _reset_status(view: ActionsView, volume_id: str, body: Any) -> None:
    values = {name: value for name, value in body.items() if value is not None}
    if not values:
        raise InvalidInputError("Must specify 'status', 'attach_status' or 'migration_status' for update.")
    services.reset_status(view.context, volume_id, **values)


def _force_delete(view: ActionsView, volume_id: str, body: Any) -> None:
    services.Delete.begin(view.context, volume_id, services.VolumeDeletion(force=True))


def _force_detach(view: ActionsView, volume_id: str, body: Any) -> None:
    services.force_detach(view.context, volume_id, body.get("attachment_id"))


def _attach(view: ActionsView, volume_id: str, body: Any) -> None:
    if not body.get("instance_uuid") and not body.get("host_name"):
        raise InvalidInputError("Specify the server (instance_uuid) or the host (host_name).", field="instance_uuid")
    mode = body.get("mode", "rw")
    outside.attach(view.context, volume_id, body.get("instance_uuid"), body["mountpoint"], mode)


def _detach(view: ActionsView, volume_id: str, body: Any) -> None:
    outside.detach(view.context, volume_id, (body or {}).get("attachment_id"))


def _reserve(view: ActionsView, volume_id: str, body: Any) -> None:
    outside.reserve_in_old_form(view.context, volume_id)


def _unreserve(view: ActionsView, volume_id: str, body: Any) -> None:
    outside.unreserve(view.context, volume_id)


def _begin_detaching(view: ActionsView, volume_id: str, body: Any) -> None:
    services.attachments.begin_detaching(outside.only_attachment(view.context, volume_id).id)


def _roll_detaching(view: ActionsView, volume_id: str, body: Any) -> None:
    services.attachments.roll_detaching(outside.only_attachment(view.context, volume_id).id)


def _initialize(view: ActionsView, volume_id: str, body: Any) -> Json:
    connected = outside.initialize(view.context, volume_id, body["connector"])
    data = {"volume_id": str(connected.volume_id), "attachment_id": str(connected.id), "access_mode": connected.mode}
    return {"connection_info": {"driver_volume_type": "nbd", "data": data}}


def _terminate(view: ActionsView, volume_id: str, body: Any) -> None:
    outside.terminate(view.context, volume_id)


def _set_bootable(view: ActionsView, volume_id: str, body: Any) -> None:
    services.set_bootable(view.context, volume_id, bootable=schemas.boolean(body["bootable"]))


def _set_read_only(view: ActionsView, volume_id: str, body: Any) -> None:
    services.set_read_only(view.context, volume_id, read_only=schemas.boolean(body["readonly"]))


def _set_image_metadata(view: ActionsView, volume_id: str, body: Any) -> Json:
    changed = services.set_items(view.context, volume_id, body["metadata"], bag="image_metadata")
    return {"metadata": changed.image_metadata}


def _unset_image_metadata(view: ActionsView, volume_id: str, body: Any) -> None:
    if body["key"] not in volume_for(view.context, volume_id).image_metadata:
        raise NotFoundError(f"Metadata item {body['key'][:64]} was not found.")
    services.delete_item(view.context, volume_id, body["key"], bag="image_metadata")


def _show_image_metadata(view: ActionsView, volume_id: str, body: Any) -> Json:
    return {"metadata": volume_for(view.context, volume_id).image_metadata}


def _upload(view: ActionsView, volume_id: str, body: Any) -> Json:
    request = services.UploadRequest(
        body["image_name"].strip(),
        force=schemas.boolean(body.get("force", False)),
        container_format=body.get("container_format") or "bare",
        disk_format=body.get("disk_format") or "raw",
        visibility=body.get("visibility", "private"),
        protected=schemas.boolean(body.get("protected", False)),
    )
    volume, image = services.UploadToImage.begin(view.context, volume_id, request)
    kind = volume.volume_type
    shown: Json = {
        "id": str(volume.id),
        "updated_at": kinds.timestamp(volume.updated_at),
        "status": "uploading",
        "display_description": volume.description or None,
        "size": volume.size_gb,
        "volume_type": {"id": str(kind.id), "name": kind.name} if kind else None,
        "image_id": str(image.id),
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "image_name": image.name,
    }
    if view.microversion >= (3, 1):
        shown |= {"visibility": image.visibility, "protected": image.protected}
    return {"os-volume_upload_image": shown}


def _retype(view: ActionsView, volume_id: str, body: Any) -> None:
    request = services.RetypeRequest(body["new_type"], body.get("migration_policy") or "never")
    services.Retype.begin(view.context, volume_id, request)


def _migrate(view: ActionsView, volume_id: str, body: Any) -> None:
    if body.get("cluster"):
        raise InvalidInputError("There are no clusters: specify a host.", field="cluster")
    if not body.get("host"):
        raise InvalidInputError("Missing required element 'host' in request body.", field="host")
    try:
        pool = pool_named(body["host"])
    except NotFoundError as error:
        raise InvalidInputError(error.message, field="host") from None
    services.Migrate.begin(view.context, volume_id, pool.id)


def _complete_migration(view: ActionsView, volume_id: str, body: Any) -> None:
    volume_for(view.context, volume_id)
    raise NotOfferedError("Migrations are completed automatically: this action is not needed.")


def _complete_extend(view: ActionsView, volume_id: str, body: Any) -> None:
    found = volume_for(view.context, volume_id)
    raise InvalidVolumeError(f"Volume {found.id} does not wait for this action: it is extended automatically.")


def _revert(view: ActionsView, volume_id: str, body: Any) -> None:
    services.Revert.begin(view.context, volume_id, body["snapshot_id"])


def _reimage(view: ActionsView, volume_id: str, body: Any) -> None:
    request = services.ReimageRequest(body["image_id"], reserved=schemas.boolean(body.get("reimage_reserved", False)))
    services.Reimage.begin(view.context, volume_id, request)


def _unmanage(view: ActionsView, volume_id: str, body: Any) -> None:
    services.Unmanage.begin(view.context, volume_id, None)


VOLUME_ACTIONS: dict[str, Action] = {
    "os-extend": Action(rule=services.Extend.rule, act=_extend, schema=NEW_SIZE),
    "os-reset_status": Action(
        rule="volume_extension:volume_admin_actions:reset_status", act=_reset_status, schema=RESET
    ),
    "os-force_delete": Action(rule="volume_extension:volume_admin_actions:force_delete", act=_force_delete),
    "os-force_detach": Action(
        rule="volume_extension:volume_admin_actions:force_detach", act=_force_detach, schema=FORCE_DETACH
    ),
    "os-attach": Action(rule="volume_extension:volume_actions:attach", act=_attach, schema=ATTACH),
    "os-detach": Action(rule="volume_extension:volume_actions:detach", act=_detach, schema=DETACH),
    "os-reserve": Action(rule="volume_extension:volume_actions:reserve", act=_reserve),
    "os-unreserve": Action(rule="volume_extension:volume_actions:unreserve", act=_unreserve),
    "os-begin_detaching": Action(rule="volume_extension:volume_actions:begin_detaching", act=_begin_detaching),
    "os-roll_detaching": Action(rule="volume_extension:volume_actions:roll_detaching", act=_roll_detaching),
    "os-initialize_connection": Action(
        rule="volume_extension:volume_actions:initialize_connection", act=_initialize, schema=CONNECTOR
    ),
    "os-terminate_connection": Action(
        rule="volume_extension:volume_actions:terminate_connection", act=_terminate, schema=CONNECTOR
    ),
    "os-set_bootable": Action(rule="volume:update", act=_set_bootable, schema=BOOTABLE, status=200),
    "os-update_readonly_flag": Action(rule="volume:update_readonly_flag", act=_set_read_only, schema=READ_ONLY),
    "os-set_image_metadata": Action(
        rule="volume_extension:volume_image_metadata:set", act=_set_image_metadata, schema=SET_IMAGE_METADATA
    ),
    "os-unset_image_metadata": Action(
        rule="volume_extension:volume_image_metadata:remove",
        act=_unset_image_metadata,
        schema=UNSET_IMAGE_METADATA,
        status=200,
    ),
    "os-show_image_metadata": Action(rule="volume_extension:volume_image_metadata:show", act=_show_image_metadata),
    "os-volume_upload_image": Action(rule=services.UploadToImage.rule, act=_upload, schema=volume_upload, status=202),
    "os-retype": Action(rule=services.Retype.rule, act=_retype, schema=RETYPE),
    "os-migrate_volume": Action(rule=services.Migrate.rule, act=_migrate, schema=volume_migration),
    "os-migrate_volume_completion": Action(
        rule="volume_extension:volume_admin_actions:migrate_volume_completion",
        act=_complete_migration,
        schema=MIGRATE_COMPLETION,
    ),
    "os-extend_volume_completion": Action(
        rule="volume_extension:volume_admin_actions:extend_volume_completion",
        act=_complete_extend,
        schema=EXTEND_COMPLETION,
        since=(3, 71),
    ),
    "revert": Action(rule=services.Revert.rule, act=_revert, schema=REVERT, since=(3, 40)),
    "os-reimage": Action(rule=services.Reimage.rule, act=_reimage, schema=REIMAGE, since=(3, 68)),
    "os-unmanage": Action(rule=services.Unmanage.rule, act=_unmanage),
}
